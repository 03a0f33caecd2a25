import { setImmediate } from 'node:timers/promises';

/** Work in steps, of which none takes long: between them other work can be done. */
export type Steps<Result> = Generator<void, Result>;

export function takeSteps<Result>(steps: Steps<Result>): Result {
  let step = steps.next();
  while (!step.done) step = steps.next();
  return step.value;
}

/** Takes the steps one by one, so that the event loop can answer probes between them. */
export async function takeStepsYielding<Result>(steps: Steps<Result>): Promise<Result> {
  let step = steps.next();
  while (!step.done) {
    await setImmediate();
    step = steps.next();
  }
  return step.value;
}
