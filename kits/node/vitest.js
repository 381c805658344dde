import { afterAll, afterEach, beforeAll, beforeEach } from "vitest";
import { suite } from "./suite.js";

const failed = (context) => context.task.result?.state === "fail";

export function useOdradek(options) {
  return suite({ beforeAll, beforeEach, afterEach, afterAll, failed }, options);
}
