// The broker itself: a process, a container, or one that runs elsewhere. It ends with this process, however that ends:
// its standard input is a pipe from here.

import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, mkdtempSync, openSync, closeSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const SETTINGS = /^(KAFKA_|ODRADEK_|CLUSTER_ID$)/; // variables from which a broker would read settings
const MISSING =
  "install odradek where its command is on the path, or set ODRADEK (a command), BROKER_IMAGE or BROKER_CONTROL";

export class Node {
  constructor({ settings = {}, profile = "test", startTimeout = 30 } = {}) {
    this.settings = settings;
    this.profile = profile;
    this.startTimeout = startTimeout;
    this.url = process.env.BROKER_CONTROL;
    this.token = process.env.BROKER_TOKEN;
    this.isElsewhere = this.url !== undefined;
    this.listeners = "PLAINTEXT://127.0.0.1:0";
    this.child = undefined;
    this.registryUrl = undefined; // once it was asked for: the next start has it, too
    this.registry = undefined; // of a container: where its schema registry is to listen, at a port that is published
  }

  async start() {
    if (this.isElsewhere) {
      if (Object.keys(this.settings).length > 0) {
        throw new Error("BROKER_CONTROL names a broker that runs already: it has settings of its own");
      }
    } else {
      const isNew = this.folder === undefined;
      this.folder ??= mkdtempSync(join(tmpdir(), "odradek-"));
      try {
        await (process.env.BROKER_IMAGE ? this.#startContainer(process.env.BROKER_IMAGE) : this.#startProcess());
      } catch (error) {
        if (isNew) await this.close();
        throw error;
      }
    }
    const status = await this.send("GET", "/status");
    this.bootstrap = Object.values(status.listeners)[0];
  }

  async #startProcess() {
    const ready = join(this.folder, "ready.json");
    rmSync(ready, { force: true });
    const words = (process.env.ODRADEK ?? "odradek").split(" ");
    this.#run([
      ...words,
      ...["serve", "--profile", this.profile, "--control", "127.0.0.1:0", "--set", `listeners=${this.listeners}`],
      ...["--set", "odradek.http.port=-1", "--set", `log.dirs=${join(this.folder, "data")}`],
      ...["--ready-file", ready, "--exit-with-parent", "--remove-with-parent", this.folder],
      ...(this.registryUrl ? ["--set", `schema.registry.listeners=${this.registryUrl}`] : []),
      ...this.#given(),
    ]);
    await this.#until(() => existsSync(ready) && readFileSync(ready, "utf8").endsWith("\n"));
    const told = JSON.parse(readFileSync(ready, "utf8"));
    this.url = told.control;
    this.listeners = told.bound; // the next start has the same port
  }

  async #startContainer(image) {
    this.token ??= randomBytes(16).toString("hex");
    const ports = await freePorts(3);
    const [kafka, control, registry] = ports;
    this.registry = { host: "0.0.0.0", port: registry };
    this.#run([
      ...(process.env.CONTAINER_COMMAND ?? "docker").split(" "),
      ...["run", "--rm", "--interactive"],
      ...ports.flatMap((port) => ["--publish", `127.0.0.1:${port}:${port}`]),
      ...["--env", `KAFKA_LISTENERS=PLAINTEXT://0.0.0.0:${kafka}`],
      ...["--env", `KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://127.0.0.1:${kafka}`],
      ...["--env", `ODRADEK_CONTROL=0.0.0.0:${control}`, "--env", `ODRADEK_CONTROL_TOKEN=${this.token}`],
      ...[image, "serve", "--profile", this.profile, "--exit-with-parent", ...this.#given()],
    ]);
    this.url = `http://127.0.0.1:${control}`;
    await this.#until(() => this.send("GET", "/status").then(() => true, () => false));
  }

  #given() {
    return Object.entries(this.settings).flatMap(([name, value]) => ["--set", `${name}=${value}`]);
  }

  #run([program, ...words]) {
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !SETTINGS.test(name)));
    const log = openSync(this.#log(), "a");
    this.child = spawn(program, words, { env, stdio: ["pipe", log, log] });
    closeSync(log);
    this.failure = undefined;
    this.ended = new Promise((resolve) => {
      this.child.once("exit", resolve);
      this.child.once("error", (error) => {
        this.failure = new Error(`${error.message}: ${MISSING}`);
        resolve();
      });
    });
    // Neither the broker nor its pipe keeps this process alive.
    this.child.unref();
    this.child.stdin.unref();
    this.child.stdin.on("error", () => {});
  }

  async #until(serves) {
    const deadline = Date.now() + this.startTimeout * 1000;
    while (!(await serves())) {
      if (this.failure) throw this.failure;
      if (!this.runs) throw new Error(`the broker did not start:\n${this.lastWords()}`);
      if (Date.now() > deadline) {
        await this.kill();
        throw new Error(
          `the broker did not start within ${this.startTimeout} s (startTimeout gives it longer):\n${this.lastWords()}`,
        );
      }
      await sleep(5);
    }
  }

  get runs() {
    if (this.isElsewhere) return true;
    return this.child !== undefined && this.child.exitCode === null && this.child.signalCode === null && !this.failure;
  }

  requireProcess() {
    if (this.isElsewhere || process.env.BROKER_IMAGE) {
      throw new Error("a broker of BROKER_CONTROL or BROKER_IMAGE cannot be killed or restarted from here");
    }
  }

  async awaitEnd(seconds) {
    const waiting = new AbortController();
    const late = sleep(seconds * 1000, "late", { signal: waiting.signal }).catch(() => undefined);
    const first = await Promise.race([this.ended, late]);
    waiting.abort();
    if (first === "late") throw new Error(`the broker still runs after ${seconds} s`);
  }

  async stop() {
    if (!this.runs || this.isElsewhere) return;
    this.child.kill("SIGTERM");
    await this.awaitEnd(15).catch(() => this.kill());
  }

  async kill() {
    if (!this.runs) return;
    this.child.ref(); // or nobody would wait for it
    this.child.kill("SIGKILL");
    await this.ended;
  }

  async close() {
    await this.stop();
    if (this.folder) rmSync(this.folder, { recursive: true, force: true });
    this.folder = undefined;
  }

  #log() {
    return join(this.folder, "broker.log");
  }

  lastWords() {
    return existsSync(this.#log()) ? readFileSync(this.#log(), "utf8").trimEnd().split("\n").slice(-30).join("\n") : "";
  }

  /** Sends a request to the control interface. What it refuses, and a wait in vain, are errors. */
  async send(method, path, body) {
    const headers = { "Content-Type": "application/json" };
    if (this.token) headers.Authorization = `Bearer ${this.token}`;
    const text = body === undefined ? undefined : JSON.stringify(body);
    const response = await fetch(`${this.url}/control${path}`, { method, headers, body: text });
    const answer = await response.json();
    if (!response.ok) throw new ControlError(answer.error, response.status, answer.parameter);
    return answer;
  }
}

/** The broker refused something, or a wait was in vain (status 408). */
export class ControlError extends Error {
  constructor(message, status, parameter) {
    super(message);
    this.name = "ControlError";
    this.status = status;
    this.parameter = parameter;
  }
}

async function freePorts(count) {
  const servers = Array.from({ length: count }, () => createServer());
  await Promise.all(servers.map((server) => new Promise((resolve) => server.listen(0, "127.0.0.1", resolve))));
  const ports = servers.map((server) => server.address().port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}
