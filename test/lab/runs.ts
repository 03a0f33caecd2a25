/**
 * How many times as long the slow random tests look for a failure: RUNS=10 node --test …, as `make test-more` does.
 * Once is enough to notice a change that breaks what they claim.
 */
export const RUNS = Number(process.env['RUNS'] ?? 1);
