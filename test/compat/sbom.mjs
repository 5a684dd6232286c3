// CycloneDX's own library judges the list of what is in an image, by its strict JSON schema.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { Validation } from "@cyclonedx/cyclonedx-library";
import { passes } from "./results.mjs";

const contents = readFileSync(process.env.CONTENTS, "utf8");
const validator = new Validation.JsonStrictValidator(JSON.parse(contents).specVersion);

await passes("validate the contents of the gateway's image, strictly", () => validator.validate(contents), (errors) => assert.equal(errors, null));
await passes("validate them without their form", () => validator.validate(contents.replace('"bomFormat"', '"form"')), (errors) => assert.ok(errors));
