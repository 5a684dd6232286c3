// A client that openapi-typescript makes of /openapi.yaml plays the conversation with the running product, from a new person to the interview.
import assert from "node:assert/strict";
import { setTimeout as wait } from "node:timers/promises";
import createClient from "openapi-fetch";
import type { components, paths } from "./generated/openapi.js";
import { passes } from "./results.mjs";

const { GATEWAY_URL, OPERATOR_TOKEN, PHONE_URL, PHONE } = process.env as Record<string, string>;
const api = createClient<paths>({ baseUrl: GATEWAY_URL!, headers: { Authorization: `Bearer ${OPERATOR_TOKEN}` } });

type Session = components["schemas"]["Session"];
type Failure = components["schemas"]["Error"];

/** What was answered; an error of the API is thrown in its own words. */
function done<T>(answer: { data?: T; error?: Failure }): T {
  if (answer.data === undefined) {
    throw new Error(`${answer.error?.message} (${answer.error?.details[0]?.reason})`);
  }
  return answer.data;
}

const profile = await passes("POST /v1/profiles", async () => {
  const made = done(await api.POST("/v1/profiles", { body: { phone: PHONE!, first_name: "Ana", locale: "en" } })).profile;
  assert.ok(made);
  return made;
});
assert.ok(profile, "without a profile nothing can be played");

await passes("GET /v1/profiles/{profile_id}", async () => {
  const read = done(await api.GET("/v1/profiles/{profile_id}", { params: { path: { profile_id: profile.profile_id } } }));
  const late = { state: null, fields: null }; // what makes a person leaves out where they stand, and their fields
  assert.deepEqual({ ...read.profile, ...late }, { ...profile, ...late });
});

const opened = await passes("POST /v1/profiles/{profile_id}:activate", async () => {
  const { session } = done(await api.POST("/v1/profiles/{profile_id}:activate", { params: { path: { profile_id: profile.profile_id } } }));
  assert.equal(session?.state_token, "onboarding:awaiting_opening_response");
  return session;
});
assert.ok(opened, "without a session nothing can be played");

await passes("GET /v1/sessions/{session_id}, until the interview", async () => {
  const answered = new Set<Session["state_token"]>(["onboarding:awaiting_burst"]); // the burst awaits no reply
  for (const end = Date.now() + 60_000; Date.now() < end; await wait(250)) {
    const { session }: components["schemas"]["GetSessionResult"] = done(
      await api.GET("/v1/sessions/{session_id}", { params: { path: { session_id: opened.session_id } } }),
    );
    if (session?.mode === "interviewing") {
      return;
    }
    assert.equal(session?.status, "active", session?.reason);
    if (!answered.has(session.state_token)) {
      answered.add(session.state_token);
      const reply = await fetch(`${PHONE_URL}/phone`, { method: "POST", body: new URLSearchParams({ From: PHONE!, Body: "yes please" }) });
      assert.equal(reply.status, 200);
    }
  }
  throw new Error("it took longer than a minute");
});

await passes("GET /v1/messages, a page after the other", async () => {
  let page_token = "", outbound = 0, inbound = 0;
  do {
    const page = done(await api.GET("/v1/messages", { params: { query: { profile_id: profile.profile_id, page_size: 4, page_token } } }));
    outbound += page.messages.filter((m) => m.direction === "outbound").length;
    inbound += page.messages.filter((m) => m.direction === "inbound" && m.status === "received").length;
    page_token = page.next_page_token;
  } while (page_token !== "");
  assert.deepEqual({ outbound, inbound }, { outbound: 6, inbound: 3 });
});

await passes("GET /v1/sessions by its filters", async () => {
  const query = { profile_id: profile.profile_id, state_token: "interview:activity_01" } as const;
  const { sessions } = done(await api.GET("/v1/sessions", { params: { query } }));
  assert.deepEqual(sessions.map((s) => s.session_id), [opened.session_id]);
});

await passes("GET /v1/profiles/{profile_id} of an unknown id is an error of its shape", async () => {
  const { error, response } = await api.GET("/v1/profiles/{profile_id}", {
    params: { path: { profile_id: "01900000-0000-7000-8000-000000000001" } },
  });
  assert.equal(response.status, 404);
  assert.equal(error?.details[0]?.reason, "REASON_PROFILE_NOT_FOUND");
});
