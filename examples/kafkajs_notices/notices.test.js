import { afterEach, beforeEach, expect, test } from "vitest";
import { useOdradek } from "odradek/vitest";
import { GROUP, NOTICES, Notices, ORDERS, ORDER_SCHEMA, UNREADABLE } from "./notices.js";

const odradek = useOdradek({ timeout: 60 });
let orders, notices, unreadable, service, schema;

beforeEach(async () => {
  orders = await odradek.topic(ORDERS, 1);
  notices = await odradek.topic(NOTICES, 1);
  unreadable = await odradek.topic(UNREADABLE, 1);
  schema = await odradek.registerSchema(`${ORDERS}-value`, { schema: ORDER_SCHEMA, type: "AVRO" });
  service = new Notices([odradek.bootstrap], await odradek.registryUrl());
});

afterEach(() => service.stop());

test("an order has a notice", async () => {
  await service.start();
  await orders.produce({ id: 7, item: "nuts" }, { key: "7", schema });
  const notice = await notices.expect({ order: 7 }, { key: "7" });
  expect(notice.json().text).toBe("nuts will come");
  await odradek.group(GROUP).wait({ state: "Stable", members: 1, lag: 0 });
});

test("a lost reply leaves one notice", async () => {
  const lost = await odradek.fault({ api: "Produce", topic: NOTICES, phase: "before_reply", disconnect: true, count: 1 });
  await service.start();
  await orders.produce({ id: 7, item: "nuts" }, { key: "7", schema });
  await lost.wait();
  await odradek.group(GROUP).wait({ state: "Stable", lag: 0 });
  expect(await notices.records()).toHaveLength(1);
});

test("a poisoned order is put aside, and the next one has its notice", async () => {
  await orders.produce("three nuts");
  await orders.produce({ id: 8, item: "bolts" }, { schema });
  await service.start();
  await unreadable.expect("three nuts");
  await notices.expect({ order: 8 });
});

test("a registry that does not answer costs no order", async () => {
  const failing = await odradek.registryFault({ call: "get", error: 50001, count: 5 }); // its client asks four times
  await service.start();
  await orders.produce({ id: 7, item: "nuts" }, { schema });
  await notices.expect({ order: 7 });
  expect([await failing.hits(), await unreadable.records()]).toEqual([5, []]);
});

test("a session that ends costs no order", async () => {
  await service.start();
  await orders.produce({ id: 7, item: "nuts" }, { schema });
  await notices.expect({ order: 7 });
  await odradek.group(GROUP).expire(); // as if the process had been paused for too long
  await orders.produce({ id: 8, item: "bolts" }, { schema });
  await notices.expect({ order: 8 });
});

test.skipIf(process.env.BROKER_CONTROL)("orders that came while the broker was down are not lost", async () => {
  await service.start();
  await odradek.group(GROUP).wait({ state: "Stable", members: 1 });
  await odradek.kill();
  await odradek.restart();
  await orders.produce({ id: 9, item: "screws" }, { schema });
  await notices.expect({ order: 9 });
});
