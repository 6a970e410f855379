// Unit tests against the built package and a scripted server. The real server is in tests/integration of the product.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";
import {
  InvalidRecordError,
  MarketOutcomesTracker,
  NotAcknowledgedError,
  OutcomesRefusedError,
  RecorderFullError,
  RecordsRefusedError,
  TrajectoryRecorder,
  getCurrentWindowId,
  toUnits,
} from "../dist/index.js";
import { FileSpool } from "../dist/node.js";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** A server that keeps records by key, as the real one does; `answer` may answer in its place. */
async function serve(t, answer = () => null) {
  const state = { stored: new Map(), requests: [], url: "" };
  const server = createServer(async (request, response) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    const text = Buffer.concat(parts).toString();
    const seen = { method: request.method, path: request.url, headers: request.headers, text, body: text ? JSON.parse(text) : null };
    state.requests.push(seen);
    let [status, body] = answer(seen, state.requests.length) ?? [200, null];
    if (status === 200 && body === null) {
      const answers = seen.body.records.map((record) => {
        const again = state.stored.has(record.key);
        if (!again) state.stored.set(record.key, record);
        return { status: 200, answer: {}, again };
      });
      body = { answers };
    }
    if (status === "cut") return request.socket.destroy();
    response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(body));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => new Promise((resolve) => (server.closeAllConnections(), server.close(resolve))));
  state.url = `http://127.0.0.1:${server.address().port}`;
  return state;
}

const quick = { firstPauseMs: 5, longestPauseMs: 20 };
const stored = (state) => [...state.stored.values()];
const folder = () => mkdtempSync(join(tmpdir(), "spool-"));

test("money is exact", () => {
  const units = (amount) => toUnits(amount).units;
  assert.equal(units(10123.45), 10123450000000n);
  assert.equal(units(-0.1), -100000000n);
  assert.equal(units("9007199254.740993"), 9007199254740993000n);
  assert.equal(units(1e-7), 100n);
  assert.equal(units("1.5e3"), 1500000000000n);
  assert.equal(units(12n), 12n);
  assert.deepEqual(toUnits(0.1 + 0.2), { units: 300000000n, rounded: true });
  assert.equal(units("0.0000000005"), 0n);
  assert.equal(units("0.0000000015"), 2n);
  for (const wrong of [NaN, Infinity, "", ".", "1,5", "abc", "1e9999", 1e10]) assert.throws(() => toUnits(wrong, "finalPnL"), /expected finalPnL/);
});

test("windows are named in UTC whatever the zone of the machine", () => {
  const program = 'import("./dist/index.js").then((m) => console.log(m.getCurrentWindowId(new Date("2025-01-15T10:59:59.999Z"))))';
  for (const TZ of ["UTC", "Asia/Kolkata", "America/New_York"]) {
    const ran = execFileSync(process.execPath, ["-e", program], { cwd: ROOT, env: { ...process.env, TZ } });
    assert.equal(ran.toString().trim(), "2025-01-15T10:00");
  }
  assert.equal(getCurrentWindowId(new Date("2025-01-15T10:59Z"), 4), "2025-01-15T08:00");
  assert.throws(() => getCurrentWindowId(new Date(), 5), /expected a window/);
  assert.throws(() => getCurrentWindowId(new Date("soon")), /valid date/);
});

test("a trajectory arrives in the order of its calls, in one batch, under the server's names", async (t) => {
  const server = await serve(t);
  const recorder = new TrajectoryRecorder({ url: server.url + "/", token: "secret" });
  const id = recorder.startTrajectory({ agentId: "a", windowId: "2025-01-15T10:00", scenarioId: "s" });
  recorder.startStep(id, { agentBalance: 10000.01, agentPnL: -0.5, openPositions: 2 });
  recorder.logProviderAccess(id, { providerName: "news", data: { n: [1, null] }, purpose: "decide" });
  recorder.logLLMCall(id, { model: "m", systemPrompt: "s", userPrompt: "u", response: "r", temperature: 0.7, maxTokens: 9, actionType: "TRADE" });
  recorder.completeStep(id, { actionType: "BUY", parameters: { qty: 1 }, success: true, result: 3 }, 0.25);
  recorder.endTrajectory(id, { finalPnL: "-0.5", finalBalance: "9007199254.740993", windowId: "2025-01-15T10:00Z" });
  await recorder.flush();
  assert.equal(server.requests.length, 1);
  assert.equal(server.requests[0].headers.authorization, "Bearer secret");
  const records = stored(server);
  assert.deepEqual(records.map((record) => record.kind), ["start", "step", "access", "call", "action", "end"]);
  assert.equal(new Set(records.map((record) => record.key)).size, 6);
  assert.deepEqual(records[1].body.state, { openPositions: 2, balance: 10000010000000, pnl: -500000000 });
  assert.deepEqual(records[4].body.action, {
    type: "BUY", parameters: { qty: 1, llmActionTypes: ["TRADE"] }, success: true, result: { value: 3 },
  });
  assert.match(server.requests[0].text, /"final_balance":9007199254740993000,/);
  assert.equal(recorder.sent, 6);
  await recorder.close();
  assert.throws(() => recorder.startTrajectory({ agentId: "a" }), /closed/);
});

test("what JSON cannot hold is refused by its path, and nothing is sent", async (t) => {
  const server = await serve(t);
  const recorder = new TrajectoryRecorder({ url: server.url });
  const id = recorder.startTrajectory({ agentId: "a" });
  const circle = {};
  circle.self = circle;
  for (const [state, words] of [
    [{ prices: { BTC: NaN } }, /step\.body\.state\.prices\.BTC, found NaN/],
    [{ f: () => 1 }, /found a function/],
    [{ m: new Map() }, /found a Map/],
    [circle, /levels/],
    [{ agentBalance: 1, balance: 2 }, /found both/],
    [{ agentBalance: Infinity }, /agentBalance/],
  ]) assert.throws(() => recorder.startStep(id, state), (error) => error instanceof InvalidRecordError && words.test(error.message));
  await recorder.flush();
  assert.deepEqual(stored(server).map((record) => record.kind), ["start"]);
});

test("an end in another window than the start is refused", async (t) => {
  const recorder = new TrajectoryRecorder({ url: (await serve(t)).url });
  const id = recorder.startTrajectory({ agentId: "a", windowId: "2025-01-15T10:00" });
  assert.throws(() => recorder.endTrajectory(id, { windowId: "2025-01-15T11:00" }), /2025-01-15T10:00, in which/);
  await recorder.endTrajectory(id, { windowId: "2025-01-15T10:00" });
  await recorder.flush();
});

test("lost answers, cut connections and busy servers lose and double nothing", async (t) => {
  const server = await serve(t, (request, number) => {
    if (number === 1) return [503, { error: { message: "busy" } }];
    if (number === 2) return ["cut", {}];
    if (number === 3) return [200, { answers: request.body.records.map(() => ({ status: 503, error: "full" })) }];
    if (number === 4) return [200, { answers: [] }];
    return null;
  });
  const recorder = new TrajectoryRecorder({ url: server.url, batchRecords: 7, ...quick });
  const id = recorder.startTrajectory({ agentId: "a" });
  for (let step = 0; step < 50; step += 1) await recorder.startStep(id, { step });
  await recorder.flush();
  assert.deepEqual(stored(server).slice(1).map((record) => record.body.state.step), Array.from({ length: 50 }, (_, step) => step));
  assert.ok(server.requests.length >= 12);
});

test("backpressure: awaited calls wait, others get an error, and nothing is lost", async (t) => {
  let isAway = true;
  const server = await serve(t, () => (isAway ? [503, {}] : null));
  const recorder = new TrajectoryRecorder({ url: server.url, maxWaitingBytes: 5000, ...quick });
  const id = recorder.startTrajectory({ agentId: "a" });
  let taken = 0;
  let waited = null;
  assert.throws(() => {
    for (;;) {
      waited = recorder.startStep(id, { text: "x".repeat(100) });
      taken += 1;
    }
  }, (error) => error instanceof RecorderFullError && /await the recorder's calls/.test(error.message));
  assert.ok(taken > 20 && taken < 100);
  let isRoomy = false;
  void waited.then(() => (isRoomy = true));
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal(isRoomy, false);
  await assert.rejects(recorder.flush(50), (error) => error instanceof NotAcknowledgedError && /HTTP 503/.test(error.message));
  isAway = false;
  await waited;
  await recorder.flush();
  assert.equal(stored(server).length, taken + 1);
});

test("refused records are named, once, and stop no others", async (t) => {
  const server = await serve(t, (request) => {
    if (request.body.records.some((record) => record.body.state?.bad === "shape")) return [422, { error: { message: "expected a state" } }];
    return null;
  });
  const recorder = new TrajectoryRecorder({ url: server.url });
  const id = recorder.startTrajectory({ agentId: "a" });
  recorder.startStep(id, { bad: "shape" });
  recorder.startStep(id, { good: true });
  await assert.rejects(recorder.flush(), (error) => {
    assert.ok(error instanceof RecordsRefusedError);
    assert.deepEqual(error.refusals.map((refusal) => [refusal.status, refusal.kind, refusal.trajectoryId]), [[422, "step", id]]);
    return /expected a state/.test(error.message);
  });
  await recorder.flush();
  assert.deepEqual(stored(server).map((record) => record.kind), ["start", "step"]);
});

test("a wrong token keeps the records and is named", async (t) => {
  const server = await serve(t, () => [401, { error: { message: "expected a token" } }]);
  const recorder = new TrajectoryRecorder({ url: server.url, ...quick });
  recorder.startTrajectory({ agentId: "a" });
  await assert.rejects(recorder.close(100), /1 waiting.*HTTP 401: expected a token/);
});

test("a spool outlives its process and is sent once", async (t) => {
  const server = await serve(t);
  const path = folder();
  const away = new TrajectoryRecorder({ url: "http://127.0.0.1:9", spool: new FileSpool(path), ...quick });
  const id = away.startTrajectory({ agentId: "a" });
  for (let step = 0; step < 3; step += 1) await away.startStep(id, { step, text: "é\u2028" });
  await away.close(20);
  const file = join(path, "records.jsonl");
  writeFileSync(file, readFileSync(file, "utf8") + '{"key":"torn'); // a crash in the middle of a line
  const back = new TrajectoryRecorder({ url: server.url, spool: new FileSpool(path) });
  await back.startStep(id, { step: 3 });
  await back.flush();
  assert.deepEqual(stored(server).map((record) => record.body.state?.step), [undefined, 0, 1, 2, 3]);
  assert.equal(stored(server)[1].body.state.text, "é\u2028");
  await back.close();
  assert.equal(readFileSync(file, "utf8"), "");
  const third = new TrajectoryRecorder({ url: server.url, spool: new FileSpool(path) });
  await third.flush();
  await third.close();
  assert.equal(stored(server).length, 5);
});

test("a spool's note that is stale, torn or too large sends lines again and leaves none out", () => {
  for (const [note, wanted] of [["0", 2], ["9999", 2], ["3", 2], ["", 2], ["x", 2], ["4", 1]]) {
    const path = folder();
    writeFileSync(join(path, "records.jsonl"), "aaa\nbbb\n");
    writeFileSync(join(path, "acknowledged"), note);
    const spool = new FileSpool(path);
    assert.equal(spool.load().length, wanted, `note ${note}`);
    spool.append("c".repeat(20_000)); // beyond the stale note
    spool.close();
    const again = new FileSpool(path);
    assert.equal(again.load().length, wanted + 1, `note ${note}`);
    again.close();
  }
});

test("a spool that never runs empty is compacted", () => {
  const path = folder();
  const spool = new FileSpool(path);
  spool.load();
  const line = "x".repeat(1 << 20);
  for (let number = 0; number < 10; number += 1) spool.append(line);
  spool.acknowledge(9);
  assert.equal(readFileSync(join(path, "records.jsonl")).length, line.length + 1);
  spool.append("last");
  spool.close();
  const again = new FileSpool(path);
  assert.deepEqual(again.load().map((item) => item.length), [line.length, 4]);
  again.close();
});

test("two running processes cannot share a spool", () => {
  const path = folder();
  const spool = new FileSpool(path);
  const program = `import("./dist/node.js").then((m) => new m.FileSpool(${JSON.stringify(path)}))`;
  const other = spawnSync(process.execPath, ["-e", program], { cwd: ROOT });
  assert.notEqual(other.status, 0);
  assert.match(other.stderr.toString(), /use another folder/);
  spool.close();
});

test("the tracker writes closed windows without outcomes, and retries under one key", async (t) => {
  const windows = [
    { window_id: "2025-01-15T09:00Z", closed: true, has_outcomes: true },
    { window_id: "2025-01-15T10:00Z", closed: true, has_outcomes: false },
    { window_id: "2025-01-15T11:00Z", closed: true, has_outcomes: false },
    { window_id: "2025-01-15T12:00Z", closed: false, has_outcomes: false },
  ];
  let posts = 0;
  const server = await serve(t, (request) => {
    if (request.method === "GET") return [200, { windows }];
    posts += 1;
    return posts === 1 ? [503, {}] : [200, { window_id: request.body.window_id, written: 2, again: false }];
  });
  const source = {
    prices: (windowId) =>
      windowId.endsWith("11:00")
        ? null
        : { assets: [{ asset: "BTC", startPrice: 0.1, endPrice: "101.25", newsIds: ["n"] }], questions: [{ questionId: "q", outcome: true }] },
  };
  const tracker = new MarketOutcomesTracker({ url: server.url, source, market: "mine" });
  assert.deepEqual(await tracker.syncRecentWindows(24), {
    written: ["2025-01-15T10:00"], known: ["2025-01-15T09:00"], open: ["2025-01-15T12:00"], unknown: ["2025-01-15T11:00"],
  });
  assert.equal(server.requests[0].path, "/v1/windows?hours=24");
  const [, first, second] = server.requests;
  assert.equal(first.headers["idempotency-key"], second.headers["idempotency-key"]);
  assert.deepEqual(second.body, {
    window_id: "2025-01-15T10:00", currency: "USD", market: "mine",
    assets: [{ asset: "BTC", start_price: "0.1", end_price: "101.25", news_ids: ["n"] }],
    questions: [{ question_id: "q", outcome: true }],
  });
  assert.equal(await tracker.trackWindowOutcomes("2025-01-15T11:00"), "unknown");
});

test("wrong prices are refused before they are sent, conflicts by the server", async (t) => {
  const server = await serve(t, (request) => [request.method === "PUT" ? 200 : 409, { error: { message: "use PUT" }, written: 1, again: false }]);
  const tracker = (assets) => new MarketOutcomesTracker({ url: server.url, source: { prices: () => ({ assets }) } });
  const asset = { asset: "BTC", startPrice: 1, endPrice: 2 };
  for (const wrong of [0, -1, NaN, Infinity, "1,0", ""]) {
    await assert.rejects(tracker([{ ...asset, endPrice: wrong }]).trackWindowOutcomes("2025-01-15T10:00"), /endPrice of BTC in 2025-01-15T10:00/);
  }
  await assert.rejects(tracker([]).trackWindowOutcomes("2025-01-15T10:00"), /found none/);
  assert.equal(server.requests.length, 0);
  await assert.rejects(tracker([asset]).trackWindowOutcomes("2025-01-15T10:00"), (error) => error instanceof OutcomesRefusedError && error.status === 409);
  assert.equal(await tracker([asset]).correctWindowOutcomes("2025-01-15T10:00", "late print"), "written");
  assert.equal(server.requests.at(-1).path, "/v1/outcomes/2025-01-15T10%3A00");
  assert.equal(server.requests.at(-1).body.reason, "late print");
});

test("the core has no imports but its own files", () => {
  const dist = join(ROOT, "dist");
  for (const name of readdirSync(dist).filter((file) => file.endsWith(".js") && file !== "node.js")) {
    const imports = [...readFileSync(join(dist, name), "utf8").matchAll(/from "([^"]+)"/g)].map((match) => match[1]);
    assert.deepEqual(imports.filter((path) => !path.startsWith("./")), [], name);
  }
});
