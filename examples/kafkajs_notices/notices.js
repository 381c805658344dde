// Reads orders, and writes a notice for each, at least once. Both are Avro, by schemas that a schema registry knows. What is
// no order goes to orders-unreadable.

import { SchemaRegistry, SchemaType } from "@kafkajs/confluent-schema-registry";
import { Kafka, logLevel } from "kafkajs";

export const ORDERS = "orders";
export const NOTICES = "notices";
export const UNREADABLE = "orders-unreadable";
export const GROUP = "notices";

export const ORDER_SCHEMA = JSON.stringify({
  type: "record",
  name: "Order",
  fields: [
    { name: "id", type: "int" },
    { name: "item", type: "string" },
  ],
});
const NOTICE_SCHEMA = JSON.stringify({
  type: "record",
  name: "Notice",
  fields: [
    { name: "order", type: "int" },
    { name: "text", type: "string" },
  ],
});

export class Notices {
  /** `registry` is the URL of the schema registry. */
  constructor(brokers, registry) {
    const kafka = new Kafka({ clientId: "notices", brokers, logLevel: logLevel.NOTHING, retry: { initialRetryTime: 50 } });
    this.producer = kafka.producer({ idempotent: true });
    this.consumer = kafka.consumer({ groupId: GROUP, sessionTimeout: 10_000, heartbeatInterval: 500 });
    this.registry = new SchemaRegistry({ host: registry });
  }

  async start() {
    const schema = { type: SchemaType.AVRO, schema: NOTICE_SCHEMA };
    this.schema = (await this.registry.register(schema, { subject: `${NOTICES}-value` })).id;
    await this.producer.connect();
    await this.consumer.subscribe({ topic: ORDERS, fromBeginning: true });
    await this.consumer.run({ eachMessage: ({ message }) => this.handle(message) });
  }

  async handle({ key, value }) {
    const order = await this.read(value);
    if (order === undefined) {
      await this.producer.send({ topic: UNREADABLE, messages: [{ key, value }] });
    } else {
      const notice = await this.registry.encode(this.schema, { order: order.id, text: `${order.item} will come` });
      await this.producer.send({ topic: NOTICES, messages: [{ key, value: notice }] });
    }
  }

  /** The order; nothing if it is none. If the registry does not answer this throws, and the order is read again. */
  async read(value) {
    try {
      return await this.registry.decode(value);
    } catch (error) {
      const isUnreadable = error.status === undefined || error.status === 404; // no answer, or its schema is unknown
      if (!isUnreadable) throw error;
    }
  }

  async stop() {
    await this.consumer.disconnect();
    await this.producer.disconnect();
  }
}
