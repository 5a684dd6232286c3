// @upstash/qstash judges the QStash emulator: every call of its client, of its receiver, and the calls of the API that it has no name for.
import assert from "node:assert/strict";
import { Client, Receiver, resend, upstash } from "@upstash/qstash";
import { eventually, openDestination } from "./destination.mjs";
import { passes, refuses, rejects } from "./results.mjs";

console.error = () => {}; // the client says there what its errors say
const { QSTASH_URL: baseUrl, QSTASH_TOKEN: token, QSTASH_CURRENT_SIGNING_KEY, QSTASH_NEXT_SIGNING_KEY } = process.env;
const client = new Client({ baseUrl, token, retry: false });
const destination = await openDestination();
const hook = (name) => `${destination.origin}/${name}`;
const later = { delay: 3600, retries: 0 };
const ask = (method, path, query) => client.http.request({ method, path: ["v2", ...path.split("/")], query });
const inHours = () => Math.floor(Date.now() / 1000) + 3600;

/** A message that waits for an hour. */
const waiting = async (more = {}) => (await client.publish({ url: hook("waits"), body: "wait", ...later, ...more })).messageId;
/** The dead letter of a message that has failed. */
const dead = async (more = {}) => {
  const { messageId } = await client.publish({ url: hook("fail"), body: "fail", retries: 0, ...more });
  return eventually(async () => (await client.dlq.listMessages()).messages.find((m) => m.messageId === messageId));
};
const gone = async (...ids) => {
  for (const id of ids) await assert.rejects(client.messages.get(id), (error) => error.status === 404);
};
const kept = (...ids) => Promise.all(ids.map((id) => client.messages.get(id)));
const buried = async (...dlqIds) => {
  const { messages } = await client.dlq.listMessages();
  for (const dlqId of dlqIds) assert.ok(!messages.some((m) => m.dlqId === dlqId), "the dead letter is still there");
};

// Publishing.
await passes("publish", () => client.publish({ url: hook("plain?x=1"), body: "as it is", headers: { "Content-Type": "text/plain" } }), async () => {
  const got = await destination.at("/plain?x=1");
  assert.deepEqual([got.method, got.body, got.headers["content-type"]], ["POST", "as it is", "text/plain"]);
});
await passes("publish method, headers", () => client.publish({ url: hook("put"), method: "PUT", headers: { "X-Mine": "1" } }), async () => {
  const got = await destination.at("/put");
  assert.deepEqual([got.method, got.headers["x-mine"]], ["PUT", "1"]);
});
await passes("publish delay", () => waiting(), async (id) => {
  const { notBefore, createdAt } = await client.messages.get(id);
  assert.equal(notBefore - createdAt, 3_600_000);
});
await passes("publish notBefore", async () => {
  const notBefore = inHours();
  const { messageId } = await client.publish({ url: hook("waits"), notBefore });
  assert.equal((await client.messages.get(messageId)).notBefore, notBefore * 1000);
});
await passes("publish retries, retryDelay", () => waiting({ retries: 5, retryDelay: "1000 * (1 + retried)" }), async (id) => {
  const { maxRetries, retryDelayExpression } = await client.messages.get(id);
  assert.deepEqual([maxRetries, retryDelayExpression], [5, "1000 * (1 + retried)"]);
});
await passes("publish timeout", () => waiting({ timeout: 10 }), kept);
await passes("publish deduplicationId", async () => {
  const first = await client.publish({ url: hook("waits"), deduplicationId: "once", ...later });
  const second = await client.publish({ url: hook("waits"), deduplicationId: "once", ...later });
  assert.deepEqual([second.messageId, second.deduplicated], [first.messageId, true]);
});
await passes("publish contentBasedDeduplication", async () => {
  const request = { url: hook("waits"), body: "the same", contentBasedDeduplication: true, ...later };
  const first = await client.publish(request);
  assert.deepEqual(await client.publish(request), { messageId: first.messageId, deduplicated: true });
});
await passes("publish label", () => waiting({ label: "mine" }), async (id) => {
  const { label, labels } = await client.messages.get(id);
  assert.deepEqual([label, labels], ["mine", ["mine"]]);
});
await passes("publish callback, failureCallback", () =>
  client.publish({ url: hook("called"), body: "x", callback: hook("callback"), failureCallback: hook("failed") }), async ({ messageId }) => {
  const report = JSON.parse((await destination.at("/callback")).body);
  assert.deepEqual([report.sourceMessageId, report.status, atob(report.body)], [messageId, 200, "answered"]);
});
await passes("publish failureCallback of a failure", () =>
  client.publish({ url: hook("fail"), retries: 0, failureCallback: hook("failed") }), async ({ messageId }) => {
  const report = JSON.parse((await destination.at("/failed")).body);
  assert.equal(report.sourceMessageId, messageId);
  assert.equal((await client.dlq.delete(report.dlqId)).deleted, 1);
});
await passes("publishJSON", () => client.publishJSON({ url: hook("json"), body: { a: 1 } }), async () => {
  const got = await destination.at("/json");
  assert.deepEqual([got.body, got.headers["content-type"]], ['{"a":1}', "application/json"]);
});
await passes("publishJSON api: email", async () => {
  const email = { name: "email", provider: resend({ token: "re_1" }) };
  const { messageId } = await client.publishJSON({ api: email, body: { to: "x" }, ...later }); // a publish to the provider's URL
  await client.messages.cancel(messageId);
});
await passes("batch", () => client.batch([{ url: hook("batch1"), body: "1" }, { url: hook("batch2"), body: "2", retries: 0 }]), async (answers) => {
  assert.equal(answers.length, 2);
  assert.equal((await destination.at("/batch2")).body, "2");
});
await passes("batchJSON", () => client.batchJSON([{ url: hook("batch3"), body: { a: 3 } }]), async () => {
  const got = await destination.at("/batch3");
  assert.deepEqual([got.body, got.headers["content-type"]], ['{"a":3}', "application/json"]);
});
await passes("batch with one that is wrong", () => client.batch([{ url: "ftp://x" }, { url: hook("batch4"), body: "4" }]), async ([wrong, right]) => {
  assert.match(wrong.error, /invalid scheme/);
  assert.ok(right.messageId);
});
await rejects("publish to no URL", () => client.publish({ url: "ftp://example.com" }), "endpoint has invalid scheme, add http:// or https://");
await rejects("publish with a ':' in deduplicationId", () => client.publish({ url: hook("x"), deduplicationId: "a:b" }), "cannot contain ':'");
await rejects("publish with another token", () => new Client({ baseUrl, token: "other", retry: false }).publish({ url: hook("x") }), "token");
await refuses("publish several labels", () => waiting({ label: ["one", "two"] }), "does not play several labels");
await refuses("publish flowControl", () => waiting({ flowControl: { key: "k", parallelism: 1 } }), "does not play flow control");
await refuses("publish redact", () => waiting({ redact: { body: true } }), "does not play Upstash-Redact-Fields");
await refuses("publish urlGroup", () => client.publish({ urlGroup: "group", ...later }), "does not play URL groups");
await refuses("publish topic", () => client.publish({ topic: "group", ...later }), "does not play URL groups");
await refuses("publishJSON api: llm", () => client.publishJSON({
  api: { name: "llm", provider: upstash() }, body: {}, callback: hook("x"), ...later,
}), "does not play api/llm");
await refuses("publish an unknown Upstash header", () => waiting({ headers: { "Upstash-Priority": "1" } }), "does not play Upstash-Priority");
await refuses("batch with a queueName", async () => {
  const [{ error }] = await client.batch([{ url: hook("x"), queueName: "q", ...later }]);
  throw new Error(error);
}, "does not play queues");

// The signature of what is delivered.
const receiver = new Receiver({ currentSigningKey: QSTASH_CURRENT_SIGNING_KEY, nextSigningKey: QSTASH_NEXT_SIGNING_KEY });
await client.publish({ url: hook("signed"), body: "signed" });
const signed = await destination.at("/signed");
const verify = (more) => receiver.verify({ signature: signed.headers["upstash-signature"], body: signed.body, url: hook("signed"), ...more });
await passes("Receiver.verify", () => verify(), (valid) => assert.equal(valid, true));
await rejects("Receiver.verify another body", () => verify({ body: "other" }), "body hash does not match");
await rejects("Receiver.verify another URL", () => verify({ url: hook("other") }), "invalid subject");
await passes("keys (GET /v2/keys)", () => ask("GET", "keys"), (keys) => assert.equal(keys.current, QSTASH_CURRENT_SIGNING_KEY));
await passes("keys/rotate, then Receiver.verify with the next key", () => ask("POST", "keys/rotate"), async (keys) => {
  assert.equal(keys.current, QSTASH_NEXT_SIGNING_KEY);
  await client.publish({ url: hook("rotated"), body: "x" });
  const got = await destination.at("/rotated");
  await receiver.verify({ signature: got.headers["upstash-signature"], body: got.body });
});

// Messages.
await passes("messages.get", () => waiting(), async (id) => {
  const found = await client.messages.get(id);
  assert.deepEqual([found.messageId, found.url, found.body, found.method], [id, hook("waits"), "wait", "POST"]);
});
await rejects("messages.get of none", () => client.messages.get("msg_none"), "not found");
await passes("messages.cancel", async () => {
  const id = await waiting();
  assert.equal((await client.messages.cancel(id)).cancelled, 1);
  await gone(id);
});
await rejects("messages.cancel of none", () => client.messages.cancel("msg_none"), "not found");
await passes("messages.delete", async () => {
  const id = await waiting();
  await client.messages.delete(id);
  await gone(id);
});
await passes("messages.cancel several", async () => {
  const [a, b, c] = [await waiting(), await waiting(), await waiting()];
  assert.equal((await client.messages.cancel([a, b])).cancelled, 2);
  await gone(a, b);
  await kept(c);
});
await passes("messages.deleteMany", async () => {
  const [a, b] = [await waiting(), await waiting()];
  assert.equal(await client.messages.deleteMany([a]), 1);
  await gone(a);
  await kept(b);
});
for (const [name, filter, of] of [
  ["label", { label: ["red", "blue"] }, { label: "red" }],
  ["url", { url: hook("one") }, { url: hook("one") }],
  ["host and path", { host: new URL(destination.origin).host, path: "/two" }, { url: hook("two") }],
  ["label and callerIp", { label: "green", callerIp: "127.0.0.1" }, { label: "green" }],
]) {
  await passes(`messages.cancel filter: ${name}`, async () => {
    const [hit, other] = [await waiting(of), await waiting({ label: "other" })];
    assert.equal((await client.messages.cancel({ filter })).cancelled, 1);
    await gone(hit);
    await kept(other);
  });
}
await passes("messages.cancel filter: fromDate, toDate", async () => {
  const id = await waiting();
  assert.equal((await client.messages.cancel({ filter: { toDate: new Date(1000) } })).cancelled, 0);
  await kept(id);
});
for (const filter of [{ urlGroup: "g" }, { queueName: "q" }, { scheduleId: "s" }, { flowControlKey: "k" }]) {
  const name = Object.keys(filter)[0];
  await refuses(`messages.cancel filter: ${name}`, () => client.messages.cancel({ filter }), `does not play the filter ${name === "urlGroup" ? "topicName" : name}`);
}
await passes("messages.cancel all, count: 1", async () => {
  const ids = [await waiting(), await waiting()];
  assert.equal((await client.messages.cancel({ all: true, count: 1 })).cancelled, 1);
  const left = await Promise.allSettled(ids.map((id) => client.messages.get(id)));
  assert.ok(left.some(({ status }) => status === "fulfilled"));
});
await passes("messages.cancel all", async () => {
  const ids = [await waiting(), await waiting()];
  await client.messages.cancel({ all: true });
  await gone(...ids);
});
await passes("messages.deleteAll", async () => {
  const id = await waiting();
  assert.equal(await client.messages.deleteAll(), 1);
  await gone(id);
});
await passes("DELETE /v2/messages without a filter cancels everything", async () => {
  const ids = [await waiting(), await waiting()];
  assert.equal((await ask("DELETE", "messages")).cancelled, 2);
  await gone(...ids);
});
await passes("retry now (POST /v2/messages/{id}/retry)", async () => {
  const id = await waiting({ url: hook("now") });
  await client.http.request({ method: "POST", path: ["v2", "messages", id, "retry"], parseResponseAsJson: false });
  assert.equal((await destination.at("/now")).headers["upstash-message-id"], id);
});

// Dead letters.
await passes("dlq.listMessages", () => dead({ label: "lost" }), ({ responseStatus, responseBody, body, url, dlqId }) => {
  assert.deepEqual([responseStatus, responseBody, body, url], [500, "answered", "fail", hook("fail")]);
  assert.match(dlqId, /^\d+-\d+$/);
});
await passes("dlq.listMessages count, cursor", async () => {
  await dead();
  const first = await client.dlq.listMessages({ count: 1 });
  const rest = await client.dlq.listMessages({ cursor: first.cursor });
  assert.equal(first.messages.length, 1);
  assert.ok(rest.messages.length > 0 && rest.cursor === undefined && rest.messages.every((m) => m.dlqId !== first.messages[0].dlqId));
});
for (const [name, filter] of [
  ["label", { label: "lost" }], ["url, responseStatus", { url: hook("fail"), responseStatus: [500, 502], label: "lost" }],
  ["callerIp, fromDate", { callerIp: "127.0.0.1", fromDate: new Date(1000), label: "lost" }],
]) {
  await passes(`dlq.listMessages filter: ${name}`, () => client.dlq.listMessages({ filter }), ({ messages }) =>
    assert.deepEqual(messages.map((m) => m.label), ["lost"]));
}
await passes("dlq.listMessages filter: messageId", async () => {
  const { messageId } = await dead();
  assert.equal((await client.dlq.listMessages({ filter: { messageId } })).messages[0].messageId, messageId);
});
await passes("dlq.listMessages dlqIds", async () => {
  const { dlqId } = await dead();
  assert.deepEqual((await client.dlq.listMessages({ dlqIds: [dlqId] })).messages.map((m) => m.dlqId), [dlqId]);
});
for (const filter of [{ urlGroup: "g" }, { queueName: "q" }, { scheduleId: "s" }, { flowControlKey: "k" }]) {
  const name = Object.keys(filter)[0];
  const words = `does not play the filter ${name === "urlGroup" ? "topicName" : name}`;
  await refuses(`dlq.listMessages filter: ${name}`, () => client.dlq.listMessages({ filter }), words);
  await refuses(`dlq.delete filter: ${name}`, () => client.dlq.delete({ filter }), words);
  await refuses(`dlq.retry filter: ${name}`, () => client.dlq.retry({ filter }), words);
}
await passes("GET /v2/dlq/{dlqId}", async () => {
  const { dlqId, messageId } = await dead();
  assert.equal((await ask("GET", `dlq/${dlqId}`)).messageId, messageId);
});
await passes("dlq.delete", async () => {
  const { dlqId } = await dead();
  await client.dlq.delete(dlqId);
  await buried(dlqId);
});
await rejects("dlq.delete of none", () => client.dlq.delete("1-1000000"), "not found");
await passes("dlq.delete several", async () => {
  const [a, b] = [await dead(), await dead()];
  assert.equal((await client.dlq.delete([a.dlqId, b.dlqId])).deleted, 2);
  await buried(a.dlqId, b.dlqId);
});
await passes("dlq.deleteMany", async () => {
  const { dlqId } = await dead();
  assert.equal((await client.dlq.deleteMany({ dlqIds: [dlqId] })).deleted, 1);
});
await passes("dlq.delete filter", async () => {
  const { dlqId } = await dead({ label: "deleted" });
  assert.equal((await client.dlq.delete({ filter: { label: "deleted" } })).deleted, 1);
  await buried(dlqId);
});
for (const [name, which] of [
  ["", ({ dlqId }) => dlqId], [" several", ({ dlqId }) => [dlqId]], [" dlqIds", ({ dlqId }) => ({ dlqIds: dlqId })],
  [" filter", () => ({ filter: { label: "again" } })],
]) {
  await passes(`dlq.retry${name}`, async () => {
    const lost = await dead({ label: "again" });
    const { responses } = await client.dlq.retry(which(lost));
    assert.equal(responses.length, 1);
    assert.notEqual(responses[0].messageId, lost.messageId);
    await buried(lost.dlqId);
    const again = await eventually(async () => (await client.dlq.listMessages()).messages.find((m) => m.messageId === responses[0].messageId));
    await client.dlq.delete(again.dlqId);
  });
}
await passes("POST /v2/dlq/retry/{dlqId}", async () => {
  const lost = await dead();
  const { messageId } = await ask("POST", `dlq/retry/${lost.dlqId}`);
  assert.notEqual(messageId, lost.messageId);
  await buried(lost.dlqId);
});
await passes("dlq.retry all, count: 1", async () => {
  await dead();
  await dead();
  const { responses, cursor } = await client.dlq.retry({ all: true, count: 1 });
  assert.equal(responses.length, 1);
  assert.ok(cursor);
});
await passes("dlq.delete all", async () => {
  await dead();
  assert.ok((await client.dlq.delete({ all: true })).deleted > 0);
});

// Logs.
const { messageId: logged } = await client.publish({ url: hook("logged"), body: "x", label: "logged" });
await destination.at("/logged");
const states = (logs) => logs.map((log) => log.state);
await passes("logs messageIds", () => eventually(async () => {
  const { logs } = await client.logs({ messageIds: [logged] });
  return logs.length === 3 && logs;
}), (logs) => {
  assert.deepEqual(states(logs), ["DELIVERED", "ACTIVE", "CREATED"]);
  assert.ok(logs.every((log) => log.messageId === logged && log.url === hook("logged") && log.time > 0));
});
await passes("logs of a failure", async () => {
  const { messageId, dlqId } = await dead({ retries: 1, retryDelay: "0" });
  const { logs } = await client.logs({ filter: { messageId } });
  assert.deepEqual(states(logs), ["FAILED", "ERROR", "ACTIVE", "RETRY", "ERROR", "ACTIVE", "CREATED"]);
  await client.dlq.delete(dlqId);
});
await passes("logs of a cancelled message", async () => {
  const id = await waiting();
  await client.messages.cancel(id);
  assert.deepEqual(states((await client.logs({ filter: { messageId: id } })).logs), ["CANCELED", "CREATED"]);
});
for (const [name, filter] of [
  ["state, label", { state: "DELIVERED", label: "logged" }], ["url", { url: hook("logged"), state: "DELIVERED" }],
  ["host, path", { host: new URL(destination.origin).host, path: "/logged", state: "DELIVERED" }],
  ["fromDate, toDate", { fromDate: Date.now() - 60_000, toDate: Date.now() + 60_000, label: "logged", state: "DELIVERED" }],
]) {
  await passes(`logs filter: ${name}`, () => client.logs({ filter }), ({ logs }) => assert.deepEqual(logs.map((log) => log.messageId), [logged]));
}
await passes("logs count, cursor", async () => {
  const seen = new Set();
  let cursor;
  do {
    const page = await client.logs({ count: 2, filter: { label: "logged" }, cursor });
    page.logs.forEach((log) => seen.add(log.state));
    cursor = page.cursor;
  } while (cursor);
  assert.equal(seen.size, 3);
});
await passes("events", () => client.events({ filter: { label: "logged" } }), ({ events }) => assert.equal(events.length, 3));
await passes("GET /v2/logs", () => ask("GET", "logs", { label: "logged" }), ({ logs }) => assert.equal(logs.length, 3));
for (const filter of [{ urlGroup: "g" }, { queueName: "q" }, { scheduleId: "s" }, { flowControlKey: "k" }, { callerIp: "127.0.0.1" }]) {
  const name = Object.keys(filter)[0];
  await refuses(`logs filter: ${name}`, () => client.logs({ filter }), `does not play the filter ${name === "urlGroup" ? "topicName" : name}`);
}

// What is not played.
const queue = client.queue({ queueName: "q" });
await refuses("queue.upsert", () => queue.upsert({ parallelism: 1 }), "does not play queues");
await refuses("queue.get", () => queue.get(), "does not play queues");
await refuses("queue.list", () => queue.list(), "does not play queues");
await refuses("queue.delete", () => queue.delete(), "does not play queues");
await refuses("queue.pause", () => queue.pause(), "does not play queues");
await refuses("queue.resume", () => queue.resume(), "does not play queues");
await refuses("queue.enqueue", () => queue.enqueue({ url: hook("x"), body: "x" }), "does not play queues");
await refuses("queue.enqueueJSON", () => queue.enqueueJSON({ url: hook("x"), body: {} }), "does not play queues");
const { schedules, urlGroups, flowControl } = client;
await refuses("schedules.create", () => schedules.create({ destination: hook("x"), cron: "* * * * *" }), "does not play schedules");
await refuses("schedules.get", () => schedules.get("scd_1"), "does not play schedules");
await refuses("schedules.list", () => schedules.list(), "does not play schedules");
await refuses("schedules.delete", () => schedules.delete("scd_1"), "does not play schedules");
await refuses("schedules.pause", () => schedules.pause({ schedule: "scd_1" }), "does not play schedules");
await refuses("schedules.resume", () => schedules.resume({ schedule: "scd_1" }), "does not play schedules");
await refuses("urlGroups.addEndpoints", () => urlGroups.addEndpoints({ name: "g", endpoints: [{ url: hook("x") }] }), "does not play URL groups");
await refuses("urlGroups.removeEndpoints", () => urlGroups.removeEndpoints({ name: "g", endpoints: [{ url: hook("x") }] }), "does not play URL groups");
await refuses("urlGroups.list", () => urlGroups.list(), "does not play URL groups");
await refuses("urlGroups.get", () => urlGroups.get("g"), "does not play URL groups");
await refuses("urlGroups.delete", () => urlGroups.delete("g"), "does not play URL groups");
await refuses("flowControl.get", () => flowControl.get("k"), "does not play flow control");
await refuses("flowControl.getGlobalParallelism", () => flowControl.getGlobalParallelism(), "does not play flow control");
await refuses("flowControl.pause", () => flowControl.pause("k"), "does not play flow control");
await refuses("flowControl.resume", () => flowControl.resume("k"), "does not play flow control");
await refuses("flowControl.pin", () => flowControl.pin("k", { parallelism: 1 }), "does not play flow control");
await refuses("flowControl.unpin", () => flowControl.unpin("k", { parallelism: true }), "does not play flow control");
await refuses("flowControl.resetRate", () => flowControl.resetRate("k"), "does not play flow control");
const chat = { model: "meta-llama/Meta-Llama-3-8B-Instruct", provider: upstash() };
await refuses("chat.create", () => client.chat().create({ ...chat, messages: [{ role: "user", content: "x" }] }), "does not play /llm");
await refuses("chat.prompt", () => client.chat().prompt({ ...chat, system: "x", user: "x" }), "does not play /llm");
await refuses("workflow.cancel", () => client.workflow.cancel("wfr_1"), "does not play workflows");

await destination.close();
