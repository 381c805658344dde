import { suite } from "./suite.js";

export function useOdradek(options) {
  const { beforeAll, beforeEach, afterEach, afterAll } = globalThis;
  const hook = (register) => (run) => register(() => run()); // jest takes a function with a parameter for one with a callback
  return suite(
    { beforeAll: hook(beforeAll), beforeEach: hook(beforeEach), afterEach: hook(afterEach), afterAll: hook(afterAll) },
    options,
  );
}
