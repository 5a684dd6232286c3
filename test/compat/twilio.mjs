// twilio, the npm package, judges the Twilio emulator, what it signs, and what the gateway verifies.
import assert from "node:assert/strict";
import twilio from "twilio";
import { eventually, openDestination } from "./destination.mjs";
import { passes, refuses, rejects } from "./results.mjs";

const { TWILIO_API_URL, TWILIO_ACCOUNT_SID, TWILIO_AUTH_TOKEN, TWILIO_SERVICE_SID, GATEWAY_URL } = process.env;

/** The SDK has Twilio's hosts built in; what it asks of them is asked of the emulator. */
class Detour extends twilio.RequestClient {
  request(options) {
    const uri = new URL(options.uri);
    return super.request({ ...options, uri: TWILIO_API_URL + uri.pathname + uri.search });
  }
}
const as = (token) => twilio(TWILIO_ACCOUNT_SID, token, { httpClient: new Detour() });
const client = as(TWILIO_AUTH_TOKEN);
const account = client.api.v2010.accounts(TWILIO_ACCOUNT_SID);
const destination = await openDestination();
const [from, second, person] = ["+12025550110", "+12025550111", "+12025550143"];
const text = { from, to: person, body: "hello" };
const fails = (call, act, status, code) => passes(call, () => assert.rejects(act, (error) => {
  assert.deepEqual([error.status, error.code], [status, code], error.message);
  return true;
}));
/** A message that has come to its end. */
const done = async (more = {}) => {
  const { sid } = await client.messages.create({ ...text, ...more });
  return eventually(async () => { const m = await client.messages(sid).fetch(); return m.status === "delivered" && m; });
};

// Messages.
await passes("messages.create", () => client.messages.create(text), (m) => {
  assert.match(m.sid, /^SM[0-9a-f]{32}$/);
  assert.deepEqual([m.status, m.from, m.to, m.body, m.direction, m.numSegments, m.numMedia], ["queued", from, person, "hello", "outbound-api", "1", "0"]);
  assert.ok(m.dateCreated instanceof Date && m.price === null && m.errorCode === null);
});
await passes("messages.create messagingServiceSid", () =>
  client.messages.create({ messagingServiceSid: TWILIO_SERVICE_SID, to: person, body: "x" }), (m) => {
  assert.deepEqual([m.status, m.from, m.messagingServiceSid], ["accepted", null, TWILIO_SERVICE_SID]);
});
await passes("messages.create statusCallback, validateRequest", async () => {
  const url = `${destination.origin}/status?message=1`;
  await client.messages.create({ ...text, statusCallback: url });
  const posted = await destination.at("/status?message=1");
  const form = Object.fromEntries(new URLSearchParams(posted.body));
  assert.ok(twilio.validateRequest(TWILIO_AUTH_TOKEN, posted.headers["x-twilio-signature"], url, form), "the signature is not valid");
  assert.ok(!twilio.validateRequest(TWILIO_AUTH_TOKEN, posted.headers["x-twilio-signature"], url, { ...form, MessageStatus: "read" }));
});
await fails("messages.create without a body", () => client.messages.create({ from, to: person }), 400, 21602);
await fails("messages.create to no number", () => client.messages.create({ ...text, to: "1" }), 400, 21211);
await fails("messages.create from another's number", () => client.messages.create({ ...text, from: "+12025550199" }), 400, 21606);
await fails("messages.create to a magic number", () => client.messages.create({ ...text, to: "+15005550004" }), 400, 21610);
await passes("messages.fetch", () => done(), (m) => assert.ok(m.dateSent instanceof Date && m.accountSid === TWILIO_ACCOUNT_SID));
await fails("messages.fetch of none", () => client.messages("SM00000000000000000000000000000000").fetch(), 404, 20404);
await passes("messages.list", () => client.messages.list(), (all) => assert.ok(all.length >= 4));
await passes("messages.list from, to, dateSent", async () => {
  await done({ from: second });
  const today = new Date();
  const found = await client.messages.list({ from: second, to: person, dateSentAfter: new Date(today.getTime() - 60_000) });
  assert.deepEqual(found.map((m) => m.from), [second]);
});
await passes("messages.list pageSize, limit", () => client.messages.list({ pageSize: 2, limit: 3 }), (found) => assert.equal(found.length, 3));
await passes("messages.page, getPage", async () => {
  const first = await client.messages.page({ pageSize: 2 });
  const next = await client.messages.getPage(first.nextPageUrl);
  assert.ok(first.instances.length === 2 && next.instances.length > 0 && next.instances[0].sid !== first.instances[0].sid);
});
await passes("messages.each", () => new Promise((resolve, reject) => {
  let seen = 0;
  client.messages.each({ pageSize: 2, limit: 3, callback: () => { seen++; }, done: (error) => (error ? reject(error) : resolve(seen)) });
}), (seen) => assert.equal(seen, 3));
await passes("messages.update body: redact", async () => {
  const { sid } = await done();
  assert.equal((await client.messages(sid).update({ body: "" })).body, "");
  assert.equal((await client.messages(sid).fetch()).body, "");
});
await fails("messages.update body of one under way", async () => {
  const { sid } = await client.messages.create({ ...text, from: "+15005550006" }); // which never moves
  return client.messages(sid).update({ body: "" });
}, 409, 20009);
await fails("messages.update body: another text", async () => client.messages((await done()).sid).update({ body: "other" }), 400, 20001);
await rejects("messages.update status: canceled of one that is not scheduled", async () =>
  client.messages((await done()).sid).update({ status: "canceled" }), "not scheduled");
await fails("messages.update of none", () => client.messages("SM00000000000000000000000000000000").update({ body: "" }), 404, 20404);
await passes("messages.remove", async () => {
  const { sid } = await done();
  assert.equal(await client.messages(sid).remove(), true);
  await assert.rejects(client.messages(sid).fetch(), (error) => error.status === 404);
});
await fails("messages.remove of none", () => client.messages("SM00000000000000000000000000000000").remove(), 404, 20404);

// The account, its numbers and its service.
await passes("accounts.fetch", () => account.fetch(), (a) => assert.deepEqual([a.sid, a.status, a.type], [TWILIO_ACCOUNT_SID, "active", "Full"]));
await fails("accounts.fetch of another", () => client.api.v2010.accounts("AC00000000000000000000000000000000").fetch(), 404, 20404);
await passes("incomingPhoneNumbers.list", () => client.incomingPhoneNumbers.list(), (all) =>
  assert.deepEqual(all.map((n) => n.phoneNumber), [from, second, "+12025550112"]));
await passes("incomingPhoneNumbers.list phoneNumber", () => client.incomingPhoneNumbers.list({ phoneNumber: second }), (all) =>
  assert.deepEqual(all.map((n) => n.phoneNumber), [second]));
await passes("incomingPhoneNumbers.page pageSize", () => client.incomingPhoneNumbers.page({ pageSize: 1 }), async (page) => {
  assert.deepEqual(page.instances.map((n) => n.phoneNumber), [from]);
  const next = await client.incomingPhoneNumbers.getPage(page.nextPageUrl);
  assert.deepEqual(next.instances.map((n) => n.phoneNumber), [second]);
});
const service = client.messaging.v1.services(TWILIO_SERVICE_SID);
await passes("services.phoneNumbers.list", () => service.phoneNumbers.list(), (all) => assert.deepEqual(all.map((n) => n.phoneNumber), ["+12025550112"]));
await passes("services.shortCodes.list", () => service.shortCodes.list(), (all) => assert.deepEqual(all.map((n) => n.shortCode), ["55501"]));
await fails("services.phoneNumbers.list of none", () => client.messaging.v1.services("MG00000000000000000000000000000000").phoneNumbers.list(), 404, 20404);
await fails("another auth token", () => as("0".repeat(32)).messages.list(), 401, 20003);
await passes("WWW-Authenticate of a 401", () => fetch(`${TWILIO_API_URL}/2010-04-01/Accounts/${TWILIO_ACCOUNT_SID}/Messages.json`), (answer) =>
  assert.deepEqual([answer.status, answer.headers.get("www-authenticate")], [401, 'Basic realm="Twilio API"']));

// What is not played.
for (const [name, more] of [
  ["mediaUrl", { mediaUrl: ["https://example.com/a.png"] }], ["sendAt, scheduleType", { sendAt: new Date(), scheduleType: "fixed" }],
  ["contentSid", { contentSid: "HX00000000000000000000000000000000" }], ["validityPeriod", { validityPeriod: 60 }],
  ["applicationSid", { applicationSid: "AP00000000000000000000000000000000" }], ["provideFeedback", { provideFeedback: true }],
  ["smartEncoded", { smartEncoded: true }], ["shortenUrls", { shortenUrls: true }], ["persistentAction", { persistentAction: ["x"] }],
  ["sendAsMms", { sendAsMms: true }], ["contentRetention", { contentRetention: "discard" }], ["maxPrice", { maxPrice: 1 }],
  ["attempt", { attempt: 1 }], ["riskCheck", { riskCheck: "enable" }],
]) {
  const parameter = { sendAt: "SendAt", scheduleType: "ScheduleType" };
  const names = name.split(", ").map((n) => parameter[n] ?? n[0].toUpperCase() + n.slice(1));
  await refuses(`messages.create ${name}`, () => client.messages.create({ ...text, ...more }), `does not play the parameter ${names.sort()[0]}`);
}
const { sid } = await done();
const [reading, changing] = ["does not play GET", "does not play POST"];
await refuses("messages.media.list", () => client.messages(sid).media.list(), reading);
await refuses("messages.feedback.create", () => client.messages(sid).feedback.create({ outcome: "confirmed" }), changing);
await refuses("accounts.list", () => client.api.v2010.accounts.list(), reading);
await refuses("accounts.create", () => client.api.v2010.accounts.create({ friendlyName: "x" }), changing);
await refuses("accounts.update", () => account.update({ friendlyName: "x" }), changing);
await refuses("incomingPhoneNumbers.list friendlyName", () => client.incomingPhoneNumbers.list({ friendlyName: "x" }), "does not play the parameter FriendlyName");
await refuses("incomingPhoneNumbers.create", () => client.incomingPhoneNumbers.create({ phoneNumber: second }), changing);
await refuses("incomingPhoneNumbers.fetch", () => client.incomingPhoneNumbers("PN00000000000000000000000000000001").fetch(), reading);
await refuses("incomingPhoneNumbers.update", () => client.incomingPhoneNumbers("PN00000000000000000000000000000001").update({ smsUrl: "https://x" }), changing);
await refuses("services.fetch", () => service.fetch(), reading);
await refuses("services.list", () => client.messaging.v1.services.list(), reading);
await refuses("services.create", () => client.messaging.v1.services.create({ friendlyName: "x" }), changing);
await refuses("services.phoneNumbers.create", () => service.phoneNumbers.create({ phoneNumberSid: "PN00000000000000000000000000000001" }), changing);
await refuses("calls.create", () => client.calls.create({ to: person, from, twiml: "<Response/>" }), changing);

// The gateway, by what the SDK signs.
const inbound = `${GATEWAY_URL}/api/webhooks/twilio/inbound`;
const status = `${GATEWAY_URL}/api/webhooks/twilio/status`;
const fields = { MessageSid: "SM11111111111111111111111111111111", From: person, To: "+12025550100", Body: "hello", NumMedia: "0", NumSegments: "1" };
const receipt = { MessageSid: "SM22222222222222222222222222222222", MessageStatus: "delivered" };
const post = async (url, type, body, signature) => {
  const answer = await fetch(url, { method: "POST", headers: { "Content-Type": type, "X-Twilio-Signature": signature }, body });
  return answer.status;
};
const postForm = (url, form, more = {}) => post(url, "application/x-www-form-urlencoded", new URLSearchParams({ ...form, ...more }).toString(),
  twilio.getExpectedTwilioSignature(TWILIO_AUTH_TOKEN, url, form));
const postJSON = (url, value, body = JSON.stringify(value)) => {
  const signed = `${url}?bodySHA256=${twilio.getExpectedBodyHash(JSON.stringify(value))}`;
  const signature = twilio.getExpectedTwilioSignature(TWILIO_AUTH_TOKEN, signed, {});
  assert.ok(twilio.validateRequestWithBody(TWILIO_AUTH_TOKEN, signature, signed, JSON.stringify(value)), "the SDK does not take its own");
  return post(signed, "application/json", body, signature);
};
for (const [name, url, value] of [["inbound", inbound, fields], ["status", status, receipt]]) {
  await passes(`gateway: ${name} as a form, getExpectedTwilioSignature`, () => postForm(url, value), (code) => assert.equal(code, 200));
  await passes(`gateway: ${name} as a form that was changed`, () => postForm(url, value, { Extra: "x" }), (code) => assert.equal(code, 403));
  await passes(`gateway: ${name} as JSON, getExpectedBodyHash`, () => postJSON(url, value), (code) => assert.equal(code, 200));
  await passes(`gateway: ${name} as JSON that was changed`, () => postJSON(url, value, JSON.stringify({ ...value, Extra: "x" })), (code) => assert.equal(code, 403));
}

await destination.close();
