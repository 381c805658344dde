// One broker for a test file, clean for each test; what test runners differ in is handed in.

import { Broker } from "./index.js";

/**
 * Registers the hooks, and returns the broker, which runs from the first test on. `failed(context)` says of the context
 * that the runner gives to its hooks whether the test has failed; where a runner does not say it, no report is printed.
 */
export function suite({ beforeAll, beforeEach, afterEach, afterAll, failed = () => false }, options) {
  const broker = new Broker(options);
  let mark;
  let since = 0;
  beforeAll(async () => {
    await broker.start();
  });
  beforeEach(async () => {
    if (!broker.running) await broker.restart();
    mark = await broker.mark();
    since = (await broker.get("/journal?limit=0")).mark;
  });
  afterEach(async (context) => {
    if (failed(context)) console.error(`odradek:\n${await broker.report(since)}`);
    if (!broker.running) await broker.restart();
    await broker.reset(mark);
  });
  afterAll(() => broker.close());
  return broker;
}
