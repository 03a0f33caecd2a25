/** Runs tools and reads files in the box that it is in, as the agent does there. */
import { systemHost, type ToolResult } from '../../lib/dataplane/host.ts';
import { answer } from './helper.ts';

/** What a `Host` is asked for. */
export type Errand =
  | { readonly file: string; readonly args: readonly string[]; readonly input: string | undefined }
  | { readonly path: string };

export interface Outcome {
  readonly result?: ToolResult;
  readonly text?: string;
}

const TIMEOUT_MS = 100_000;

const host = systemHost(TIMEOUT_MS);

answer<Errand, Outcome>(async (errand) => {
  if ('file' in errand) return { result: await host.run(errand.file, errand.args, errand.input) };
  const text = await host.readText(errand.path);
  return text === undefined ? {} : { text };
});
