import type { ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import type { Kubectl } from './kubectl.ts';
import type { Answer, Errand, Errands } from './probe/errands.ts';

/** A way to ask a probe, over one `kubectl exec` for all errands. */
export interface Talk extends AsyncDisposable {
  /** Rejects if the probe cannot do the errand, or stays out of reach. */
  ask<Name extends Errand>(errand: Name, request: Errands[Name]['request']): Promise<Errands[Name]['reply']>;
}

interface Pending {
  readonly line: string;
  readonly answered: PromiseWithResolvers<never>;
}

/** A stream ends with the kubelet and with the container runtime that carry it; both are restarted by some scenarios. */
const ATTEMPTS = 120;
const PAUSE_MS = 500;

/** @param program the path of the program in the pod that joins its streams to the probe */
export function talkTo(kubectl: Kubectl, pod: string, program: string): Talk {
  const pending = new Map<number, Pending>();
  let asked = 0;
  let child: ChildProcess | undefined;
  let failures = 0;
  let isDisposed = false;

  const connect = (): ChildProcess => {
    const started = kubectl.spawn('exec', '--stdin', pod, '--', 'node', program);
    let complaint = '';
    started.stdin?.on('error', () => {});
    started.stderr?.setEncoding('utf8').on('data', (text: string) => {
      complaint = text.trim();
    });
    if (started.stdout !== null) createInterface(started.stdout).on('line', settle);
    started.on('close', async () => {
      if (child === started) child = undefined;
      if (isDisposed || pending.size === 0) return;
      failures += 1;
      if (failures > ATTEMPTS) return giveUp(`the probe ${pod} is out of reach: ${complaint}`);
      await delay(PAUSE_MS);
      // Each errand may come twice.
      for (const { line } of pending.values()) write(line);
    });
    return started;
  };
  const write = (line: string) => {
    child ??= connect();
    child.stdin?.write(line);
  };
  const settle = (line: string) => {
    failures = 0;
    const { id, reply, error }: Answer = JSON.parse(line);
    const answered = pending.get(id)?.answered;
    pending.delete(id);
    if (error === undefined) answered?.resolve(reply as never);
    else answered?.reject(new Error(`${pod}: ${error}`));
  };
  const giveUp = (reason: string) => {
    for (const { answered } of pending.values()) answered.reject(new Error(reason));
    pending.clear();
  };
  return {
    ask: (errand, request) => {
      asked += 1;
      const line = `${JSON.stringify({ id: asked, errand, request })}\n`;
      const answered = Promise.withResolvers<never>();
      pending.set(asked, { line, answered });
      write(line);
      return answered.promise;
    },
    [Symbol.asyncDispose]: async () => {
      isDisposed = true;
      giveUp('the probe is not asked any more');
      child?.kill('SIGKILL');
    },
  };
}
