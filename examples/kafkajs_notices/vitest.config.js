export default { test: { testTimeout: 60_000, hookTimeout: 60_000 } };
