import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { flushCompileCache } from 'node:module';
import { fileURLToPath } from 'node:url';
import type { Box } from './box.ts';

interface Question<Request> {
  readonly id: number;
  readonly request: Request;
}

interface Answer<Reply> {
  readonly id: number;
  readonly reply?: Reply;
  readonly error?: string;
}

/** A long-lived process in a box that answers questions, many at a time. */
export interface Helper<Request, Reply> extends AsyncDisposable {
  /** Rejects where the helper fails to answer, or is gone. */
  ask(request: Request): Promise<Reply>;
}

/** Starts a script of the lab, which calls `answer`, in the box. */
export async function startHelper<Request, Reply>(
  box: Pick<Box, 'spawn'>,
  script: URL,
): Promise<Helper<Request, Reply>> {
  const child = box.spawn(process.execPath, [fileURLToPath(script)], {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  await once(child, 'spawn');
  const waiting = new Map<number, PromiseWithResolvers<Reply>>();
  let asked = 0;
  child.on('message', ({ id, reply, error }: Answer<Reply>) => {
    if (reply === undefined) waiting.get(id)?.reject(new Error(error));
    else waiting.get(id)?.resolve(reply);
    waiting.delete(id);
  });
  child.on('exit', (code, signal) => {
    const error = new Error(`${fileURLToPath(script)} ended: ${signal ?? `exit code ${code}`}`);
    for (const { reject } of waiting.values()) reject(error);
  });
  return {
    ask: (request) => {
      const question: Question<Request> = { id: asked, request };
      const answer = Promise.withResolvers<Reply>();
      asked += 1;
      waiting.set(question.id, answer);
      child.send(question, (error) => {
        if (error !== null) answer.reject(error);
      });
      return answer.promise;
    },
    [Symbol.asyncDispose]: () => end(child),
  };
}

/** In the helper: answers every question by the function, until the asking process is gone. */
export function answer<Request, Reply>(reply: (request: Request) => Promise<Reply>): void {
  // It is killed at the end, and would write nothing then.
  flushCompileCache();
  const send = (message: Answer<Reply>) => process.send?.(message);
  process.on('message', ({ id, request }: Question<Request>) => {
    reply(request).then(
      (reply) => send({ id, reply }),
      (error: unknown) => send({ id, error: error instanceof Error ? error.message : String(error) }),
    );
  });
  process.on('disconnect', () => process.exit());
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGKILL');
  await once(child, 'exit');
}
