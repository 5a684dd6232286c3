// What the judges of this folder have in common: a call is made, what comes back is examined, and one JSON line is printed.
import assert from "node:assert/strict";

const print = (call, outcome, note = "") => console.log(JSON.stringify({ call, outcome, note }));

/** The call must succeed, and examine(its answer) must not throw. */
export async function passes(call, act, examine = () => {}) {
  try {
    const answer = await act();
    await examine(answer);
    print(call, "passed");
    return answer;
  } catch (error) {
    print(call, "failed", String(error?.message ?? error));
    return undefined;
  }
}

/** What the emulator does not play: the call must fail, and the SDK's error must hold the words. */
export async function refuses(call, act, words) {
  try {
    const answer = await act();
    print(call, "failed", `ignored: it answered ${JSON.stringify(answer)?.slice(0, 200)}`);
  } catch (error) {
    const text = String(error?.message ?? error);
    print(call, text.includes(words) ? "refused" : "failed", text.includes(words) ? words : `it said: ${text.slice(0, 300)}`);
  }
}

/** The call must fail with the words that the vendor answers with. */
export async function rejects(call, act, words) {
  await passes(call, () => assert.rejects(act, (error) => {
    assert.ok(String(error?.message ?? error).includes(words), `it said: ${String(error?.message ?? error).slice(0, 300)}`);
    return true;
  }));
}
