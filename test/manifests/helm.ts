import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { loadAll } from 'js-yaml';
import { HELM_PROGRAM } from '../cluster/local/options.ts';
import { type RunResult, run, succeed } from '../lab/run.ts';
import type { KubernetesObject } from './documents.ts';

export const CHART = fileURLToPath(new URL('../../examples/helm/ip-masq-agent', import.meta.url));
/** A values file for each kustomization that the chart can render. */
export const VALUES = fileURLToPath(new URL('../../examples/helm/values', import.meta.url));

const PATH = process.env['PATH'] ?? '';
const ENV = { PATH, HOME: '/nonexistent' };
const MINUTE_MS = 60_000;

/** That of `make helm`, else that of the machine; undefined if there is none. */
const HELM = [HELM_PROGRAM, ...PATH.split(delimiter)].map((dir) => join(dir, 'helm')).find(isProgram);

/** Why what needs helm is skipped; false if it is not. */
export const NO_HELM = HELM === undefined && 'skipped: there is no helm; `make helm` builds one';

export function helm(...args: readonly string[]): Promise<RunResult> {
  return run({ file: HELM ?? 'helm', args }, ENV, { timeoutMs: MINUTE_MS });
}

/** What the chart renders in kube-system. */
function rendered(release: string, ...args: readonly string[]): Promise<string> {
  return succeed(helm('template', release, CHART, '--namespace=kube-system', '--skip-tests', ...args));
}

export async function objectsOfChart(
  release: string,
  ...args: readonly string[]
): Promise<readonly KubernetesObject[]> {
  return (loadAll(await rendered(release, ...args)) as KubernetesObject[]).filter(
    (object) => object !== null,
  );
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
