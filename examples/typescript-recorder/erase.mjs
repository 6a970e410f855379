// Take the types out of this folder's TypeScript, for Node 20: node erase.mjs OUT_FOLDER
//
// It knows no more TypeScript than these two files use: interfaces, `private`, and annotations by names. Keys of
// object literals are quoted there, so that only annotations have a word before their colon.
import { readFileSync, writeFileSync, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const name = String.raw`(?:Promise<\w+>|Set<\w+>|[A-Z]\w*|string|number|boolean|unknown|void|null)(?:\[\])?`;
const annotation = new RegExp(String.raw`(?<=[\w)])\??: ${name}(?: \| ${name})*(?=[,);{ ]| =)`, "g");

export function erase(source) {
  return source
    .replace(/export interface \w+ \{[^]*?\n\}\n\n/g, "")
    .replace(/\bprivate /g, "")
    .replace(annotation, "")
    .replaceAll('"./recorder.ts"', '"./recorder.mjs"');
}

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2];
mkdirSync(out, { recursive: true });
for (const file of ["recorder", "agent"]) {
  writeFileSync(join(out, `${file}.mjs`), erase(readFileSync(join(here, `${file}.ts`), "utf8")));
}
