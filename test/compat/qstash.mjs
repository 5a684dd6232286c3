// @upstash/qstash judges the QStash emulator.
import assert from "node:assert/strict";
import { Client } from "@upstash/qstash";
import { passes } from "./results.mjs";

const { QSTASH_URL: baseUrl, QSTASH_TOKEN: token } = process.env;
const client = new Client({ baseUrl, token, retry: false, enableTelemetry: true });

await passes("keys (GET /v2/keys)", () => client.http.request({ path: ["v2", "keys"], method: "GET" }),
  (keys) => assert.equal(keys.current, process.env.QSTASH_CURRENT_SIGNING_KEY));
