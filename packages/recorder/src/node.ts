import * as fs from "node:fs";
import { join } from "node:path";
import type { Spool } from "./queue.js";

const COMPACT_BYTES = 8 << 20;

/**
 * A spool in a folder of its own. Lines outlive the process; with `sync` also a power failure. A line that was sent
 * and not yet noted as acknowledged is sent again after a crash, and its idempotency key makes the server store it once.
 */
export class FileSpool implements Spool {
  readonly #folder: string;
  #file: number;
  readonly #sync: boolean;
  #lengths: number[] = [];
  #offset = 0;

  constructor(folder: string, options: { sync?: boolean } = {}) {
    fs.mkdirSync(folder, { recursive: true });
    this.#folder = folder;
    this.#sync = options.sync ?? false;
    takeLock(join(folder, "lock"));
    this.#file = fs.openSync(join(folder, "records.jsonl"), "a+", 0o600);
  }

  load(): string[] {
    const content = fs.readFileSync(this.#path("records.jsonl"));
    const noted = this.#path("acknowledged");
    const offset = fs.existsSync(noted) ? Number(fs.readFileSync(noted, "utf8")) : 0;
    // A note that a crash left torn or too large names no line; then all lines are sent again, under their old keys.
    const isLine = Number.isSafeInteger(offset) && offset <= content.length && (offset === 0 || content[offset - 1] === 10);
    this.#note(isLine ? offset : 0);
    const end = content.lastIndexOf(10) + 1; // what comes after the last line break was torn by a crash, never taken
    if (end < content.length) fs.ftruncateSync(this.#file, end);
    const lines = content.subarray(this.#offset, end).toString("utf8").split("\n").slice(0, -1);
    this.#lengths = lines.map((line) => Buffer.byteLength(line) + 1);
    return lines;
  }

  append(line: string): void {
    const bytes = Buffer.from(`${line}\n`, "utf8");
    for (let written = 0; written < bytes.length; ) written += fs.writeSync(this.#file, bytes, written);
    if (this.#sync) fs.fsyncSync(this.#file);
    this.#lengths.push(bytes.length);
  }

  acknowledge(lines: number): void {
    let offset = this.#offset;
    for (const length of this.#lengths.splice(0, lines)) offset += length;
    if (this.#lengths.length === 0) {
      fs.ftruncateSync(this.#file, 0);
      this.#note(0);
    } else {
      this.#note(offset);
      if (offset > COMPACT_BYTES) this.#compact();
    }
  }

  close(): void {
    fs.closeSync(this.#file);
    fs.rmSync(this.#path("lock"), { force: true });
  }

  #path(name: string): string {
    return join(this.#folder, name);
  }

  #note(offset: number): void {
    this.#offset = offset;
    fs.writeFileSync(this.#path("acknowledged"), String(offset));
  }

  /** Drop the acknowledged lines from a file that never ran empty. */
  #compact(): void {
    const rest = fs.readFileSync(this.#path("records.jsonl")).subarray(this.#offset);
    fs.writeFileSync(this.#path("records.jsonl.new"), rest, { mode: 0o600 });
    this.#note(0); // before the rename: a crash between the two sends lines again instead of leaving some out
    fs.renameSync(this.#path("records.jsonl.new"), this.#path("records.jsonl"));
    fs.closeSync(this.#file);
    this.#file = fs.openSync(this.#path("records.jsonl"), "a+", 0o600);
  }
}

/** Refuse a folder that another running process uses; take over one whose process is gone. */
function takeLock(path: string): void {
  try {
    fs.writeFileSync(path, String(process.pid), { flag: "wx" });
    return;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
  const owner = Number(fs.readFileSync(path, "utf8"));
  if (owner !== process.pid && isRunning(owner)) {
    throw new Error(`expected a spool folder of this process alone, found ${path} of running process ${owner}; use another folder`);
  }
  fs.writeFileSync(path, String(process.pid));
}

function isRunning(processId: number): boolean {
  if (!Number.isSafeInteger(processId) || processId <= 0) return false;
  try {
    process.kill(processId, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
