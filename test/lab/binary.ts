import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { hashOf, type Sources } from '../../build/sources.ts';

const ROOT = join(import.meta.dirname, '../..');

/** The built agent. An import of this file fails if there is none, or none of the sources as they are now. */
export const BINARY = join(ROOT, 'bin/ip-masq-agent');

const sources = builtFrom();
if (sources === undefined) throw new Error('bin/ip-masq-agent is missing: run `make build`');
const changed = Object.keys(sources).find((path) => hashOf(join(ROOT, path)) !== sources[path]);
if (changed !== undefined)
  throw new Error(`bin/ip-masq-agent is not of these sources: ${changed} has changed; run \`make build\``);

/** Undefined if it was never built. */
function builtFrom(): Sources | undefined {
  try {
    return JSON.parse(readFileSync(`${BINARY}.meta.json`, 'utf8')).sources;
  } catch {
    return undefined;
  }
}
