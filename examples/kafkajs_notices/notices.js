// Reads orders, and writes a notice for each, at least once. What is no order goes to orders-unreadable.

import { Kafka, logLevel } from "kafkajs";

export const ORDERS = "orders";
export const NOTICES = "notices";
export const UNREADABLE = "orders-unreadable";
export const GROUP = "notices";

export class Notices {
  constructor(brokers) {
    const kafka = new Kafka({ clientId: "notices", brokers, logLevel: logLevel.NOTHING, retry: { initialRetryTime: 50 } });
    this.producer = kafka.producer({ idempotent: true });
    this.consumer = kafka.consumer({ groupId: GROUP, sessionTimeout: 10_000, heartbeatInterval: 500 });
  }

  async start() {
    await this.producer.connect();
    await this.consumer.subscribe({ topic: ORDERS, fromBeginning: true });
    await this.consumer.run({ eachMessage: ({ message }) => this.handle(message) });
  }

  async handle({ key, value }) {
    const [topic, notice] = noticeOf(value);
    await this.producer.send({ topic, messages: [{ key, value: notice }] });
  }

  async stop() {
    await this.consumer.disconnect();
    await this.producer.disconnect();
  }
}

function noticeOf(value) {
  try {
    const { id, item } = JSON.parse(value);
    return [NOTICES, JSON.stringify({ order: id, text: `${item} will come` })];
  } catch {
    return [UNREADABLE, value];
  }
}
