import fc from 'fast-check';

/**
 * How many times as long the slow random tests look for a failure: RUNS=10 node --test …, as `make test-more` does.
 * Once is enough to notice a change that breaks what they claim.
 */
export const RUNS = Number(process.env['RUNS'] ?? 1);

const SEED = process.env['SEED'];

fc.configureGlobal({
  ...(SEED !== undefined && { seed: Number(SEED) }),
  // Before the test times out: what has failed is told then, although a smaller example may exist.
  interruptAfterTimeLimit: Math.max(1, RUNS) * 50_000,
});
