import { useOdradek } from "odradek/jest";
import { NOTICES, Notices, ORDERS, ORDER_SCHEMA, UNREADABLE } from "./notices.js";

const odradek = useOdradek({ timeout: 60 });

test("an order has a notice", async () => {
  const orders = await odradek.topic(ORDERS, 1);
  const notices = await odradek.topic(NOTICES, 1);
  await odradek.topic(UNREADABLE, 1);
  const schema = await odradek.registerSchema(`${ORDERS}-value`, { schema: ORDER_SCHEMA, type: "AVRO" });
  const service = new Notices([odradek.bootstrap], await odradek.registryUrl());
  await service.start();
  await orders.produce({ id: 7, item: "nuts" }, { key: "7", schema });
  expect((await notices.expect({ order: 7 })).key).toBe("7");
  await service.stop();
}, 60_000);

test("nothing of it is left for the next test", async () => {
  expect((await odradek.get("/topics")).topics.filter((topic) => !topic.internal)).toEqual([]);
});
