import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, rmdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Broker, ControlError } from "odradek";
import { useOdradek } from "odradek/node";

describe("the broker of a test file", () => {
  const odradek = useOdradek();

  test("records come out as they went in", async () => {
    const orders = await odradek.topic("orders", 3);
    await orders.produce({ id: 7 }, { key: "7", headers: { trace: "abc" } });
    await orders.produce("text", { key: "8", partition: 2 });
    await orders.produce(Buffer.from([0xff]), { key: "9" });
    await orders.produce(null, { key: "gone" });
    const found = await orders.expect({ id: 7 }, { key: "7", headers: { trace: "abc" } });
    assert.deepEqual([found.key, found.json(), found.headers], ["7", { id: 7 }, { trace: "abc" }]);
    assert.deepEqual((await orders.expect(undefined, { key: "9" })).value, Buffer.from([0xff]));
    assert.equal((await orders.expect(null)).key, "gone");
    assert.equal((await orders.records()).length, 4);
    assert.equal(`${orders}`, "orders");
  });

  test("a record by a schema comes out decoded, and a registration may fail", async () => {
    const schema = JSON.stringify({ type: "record", name: "Order", fields: [{ name: "id", type: "int" }] });
    const id = await odradek.registerSchema("orders-value", { schema, type: "AVRO" });
    const orders = await odradek.topic("orders");
    await orders.produce({ id: 7 }, { schema: id });
    const found = await orders.expect({ id: 7 });
    assert.deepEqual([found.json(), found.value.length], [{ id: 7 }, 6]);
    const versions = `${await odradek.registryUrl()}/subjects/orders-value/versions`;
    const fault = await odradek.registryFault({ call: "list", error: 50001, count: 1 });
    assert.deepEqual((await (await fetch(versions)).json()).error_code, 50001);
    assert.deepEqual([await fault.hits(), await (await fetch(versions)).json()], [1, [1]]);
  });

  test("each test finds it clean", async () => {
    assert.deepEqual((await odradek.get("/topics")).topics, []);
    await odradek.fault({ api: "Produce", error: "REQUEST_TIMED_OUT", count: 1 });
    await odradek.group("shipping").configure({ "share.auto.offset.reset": "earliest" });
    await odradek.advance({ days: 1 });
  });

  test("nothing of the test before is left", async () => {
    assert.deepEqual((await odradek.get("/faults")).faults, []);
    assert.deepEqual((await odradek.get("/groups/shipping/configs")).configs, {});
  });

  test("a wait in vain says what is nearest", async () => {
    const orders = await odradek.topic("orders");
    await orders.produce("order 7");
    await assert.rejects(orders.expect("order 8", { timeout: 0 }), (error) => {
      assert.ok(error instanceof ControlError);
      assert.equal(error.status, 408);
      assert.match(error.message, /value: expected "order 8", is "order 7"/);
      return true;
    });
    assert.match(await odradek.report(), /orders: 0: 0\.\.1/);
    assert.match(await odradek.explain("nobody"), /^group nobody/);
  });

  test("what is refused says what is wrong", async () => {
    await assert.rejects(odradek.fault({ api: "Produce", eror: 7 }), { parameter: "eror", message: /did you mean error/ });
  });

  test("it is killed and started again at its address", async () => {
    const orders = await odradek.topic("orders");
    const address = odradek.bootstrap;
    const registry = await odradek.registryUrl();
    await orders.produce("kept");
    await odradek.kill();
    assert.equal(odradek.running, false);
    await odradek.restart();
    assert.equal(odradek.bootstrap, address);
    assert.deepEqual(await (await fetch(`${registry}/subjects`)).json(), []);
    await orders.expect("kept");
    await odradek.crash({ at: "now", unsynced: "kept" });
    await odradek.awaitEnd(10);
  });

  test("what a test has ended is there again", async () => {
    assert.deepEqual((await odradek.get("/topics")).topics, []);
  });
});

test("two brokers have settings of their own", async () => {
  const broker = await Broker.start({ settings: { "num.partitions": 3 } });
  try {
    await broker.topic("t");
    assert.equal((await broker.get("/topics")).topics[0].partitions, 3);
  } finally {
    await broker.close();
  }
});

test("a command that is not there is named", async () => {
  const { ODRADEK, TMPDIR } = process.env;
  const folder = mkdtempSync(join(tmpdir(), "kit-"));
  Object.assign(process.env, { ODRADEK: "/no/odradek", TMPDIR: folder });
  try {
    await assert.rejects(Broker.start(), /set ODRADEK \(a command\), BROKER_IMAGE or BROKER_CONTROL/);
    assert.deepEqual(readdirSync(folder), []);
  } finally {
    for (const [name, value] of Object.entries({ ODRADEK, TMPDIR })) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
    rmdirSync(folder);
  }
});

const WAITS = `
import { Broker } from "odradek";
const broker = await Broker.start();
console.log(JSON.stringify({ pid: broker.pid }));
setInterval(() => {}, 1000);
`;

test("it ends with a process that is killed", async () => {
  const child = spawn(process.execPath, ["--input-type=module", "-e", WAITS], { stdio: ["ignore", "pipe", "inherit"] });
  const line = await new Promise((resolve) => child.stdout.once("data", resolve));
  const { pid } = JSON.parse(line);
  child.kill("SIGKILL");
  for (let tries = 0; existsSync(`/proc/${pid}`) || isAlive(pid); tries += 1) {
    assert.ok(tries < 1000, `process ${pid} is still there`);
    await sleep(20);
  }
});

function isAlive(pid) {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
