// twilio, the npm package, judges the Twilio emulator and the gateway.
import assert from "node:assert/strict";
import twilio from "twilio";
import { passes } from "./results.mjs";

const { TWILIO_API_URL, TWILIO_ACCOUNT_SID, TWILIO_AUTH_TOKEN } = process.env;

/** The SDK has Twilio's hosts built in; what it asks of them is asked of the emulator. */
class Detour extends twilio.RequestClient {
  request(options) {
    const uri = new URL(options.uri);
    return super.request({ ...options, uri: TWILIO_API_URL + uri.pathname + uri.search });
  }
}
const client = twilio(TWILIO_ACCOUNT_SID, TWILIO_AUTH_TOKEN, { httpClient: new Detour() });

await passes("messages.list", () => client.messages.list({ limit: 5 }), (messages) => assert.deepEqual(messages, []));
