import assert from 'node:assert/strict';
import { globSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Ajv } from 'ajv';
import { load } from 'js-yaml';
import { parseArgs } from '../../../cmd/ip-masq-agent/parse-args.ts';
import { read } from './markdown.ts';

// GitHub's own parser imports its schema as bundlers allow it, and Node only with an attribute.
registerHooks({
  load: (url, context, next) =>
    next(url, url.endsWith('.json') ? { ...context, importAttributes: { type: 'json' } } : context),
});
const { NoOperationTraceWriter, parseWorkflow } = await import('@actions/workflow-parser');

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
const WORKFLOWS = globSync('.github/workflows/*', { cwd: ROOT }).toSorted();

interface Workflow {
  readonly permissions?: unknown;
  readonly jobs: Readonly<
    Record<string, { readonly permissions?: unknown; readonly steps: readonly { readonly run?: string }[] }>
  >;
}

describe('the workflows', () => {
  it('are looked at', () =>
    assert.deepEqual(WORKFLOWS, ['.github/workflows/ci.yml', '.github/workflows/release.yml']));

  for (const path of WORKFLOWS) {
    const text = read(path);
    const workflow = load(text) as Workflow;

    it(`${path} is one for GitHub`, () => assert.deepEqual(workflowErrors(text), []));

    it(`${path} does nothing that nobody can do at home`, () => {
      const runs = Object.values(workflow.jobs).flatMap(({ steps }) => steps.flatMap(({ run }) => run ?? []));
      assert.ok(runs.length > 0);
      assert.deepEqual(
        runs.filter((run) => !isOurs(run)),
        [],
      );
    });

    it(`${path} takes actions of others by their commit, and says which version that is`, () => {
      const uses = text.match(/^.*\buses:.*$/gm) ?? [];
      assert.ok(uses.length > 0);
      const loose = uses.filter(
        (line) => !/- uses: [\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(line),
      );
      assert.deepEqual(loose, []);
    });

    it(`${path} has no right but to read, and to push images`, () => {
      assert.deepEqual(workflow.permissions, { contents: 'read' });
      const rights = Object.entries(workflow.jobs).flatMap(([name, { permissions }]) =>
        permissions === undefined ? [] : [[name, permissions]],
      );
      const wanted = path.endsWith('release.yml')
        ? [['publish', { contents: 'read', packages: 'write' }]]
        : [];
      assert.deepEqual(rights, wanted);
    });
  }

  it('would be refused with a slip in a key, a context, or what they run', () => {
    const text = read('.github/workflows/release.yml');
    for (const [right, wrong] of [
      ['runs-on:', 'run-on:'],
      ['contents: read', 'contents: raed'],
      ['github.actor', 'gihtub.actor'],
      ['needs: test', 'needs: tset'],
    ] as const)
      assert.notDeepEqual(workflowErrors(text.replace(right, wrong)), [], wrong);
    for (const run of ['make tset', 'make all-container && curl x', 'npm ci', './ci/run', 'make test $(id)'])
      assert.ok(!isOurs(run), run);
  });
});

describe('the forms for issues', () => {
  const isForm = new Ajv({ allErrors: true }).compile(formSchema());

  for (const name of ['bug', 'feature']) {
    it(`${name}.yml is a form for GitHub, each of its fields with a name of its own`, () => {
      const form = load(read(`.github/ISSUE_TEMPLATE/${name}.yml`)) as {
        readonly body: readonly { readonly id?: string }[];
      };
      assert.ok(isForm(form), JSON.stringify(isForm.errors));
      const ids = form.body.flatMap(({ id }) => id ?? []);
      assert.equal(new Set(ids).size, ids.length);
    });
  }

  it('would be refused with a key or a type that there is not', () => {
    const text = read('.github/ISSUE_TEMPLATE/bug.yml');
    for (const [right, wrong] of [
      ['textarea', 'textaera'],
      ['required: true', 'require: true'],
      ['description: The agent', 'about: The agent'],
    ] as const)
      assert.equal(isForm(load(text.replace(right, wrong))), false, wrong);
  });

  it('are the only ones', () => {
    const files = globSync('.github/ISSUE_TEMPLATE/*', { cwd: ROOT }).toSorted();
    assert.deepEqual(
      files.map((path) => path.replace('.github/ISSUE_TEMPLATE/', '')),
      ['bug.yml', 'config.yml', 'feature.yml'],
    );
  });

  it('ask for what the agent can print', () => {
    const asked = [...read('.github/ISSUE_TEMPLATE/bug.yml').matchAll(/`ip-masq-agent ([^`]+)`/g)];
    const commands = asked.map(([, line = '']) => parseArgs(line.split(' ')).command);
    assert.deepEqual(commands, ['version', 'doctor', 'check']);
  });
});

describe('Dependabot', () => {
  it('looks at npm and at the workflows', () => {
    const { version, updates } = load(read('.github/dependabot.yml')) as {
      readonly version: unknown;
      readonly updates: readonly Readonly<Record<string, unknown>>[];
    };
    assert.equal(version, 2);
    assert.deepEqual(
      updates.map((update) => [update['package-ecosystem'], update['directory'], update['schedule']]),
      [
        ['npm', '/', { interval: 'weekly' }],
        ['github-actions', '/', { interval: 'weekly' }],
      ],
    );
  });
});

/** What GitHub would find wrong with a workflow, and jobs that need others that there are not. */
function workflowErrors(content: string): readonly string[] {
  const { context } = parseWorkflow({ name: 'workflow.yml', content }, new NoOperationTraceWriter());
  const { jobs } = load(content) as { readonly jobs: Readonly<Record<string, { readonly needs?: string }>> };
  const needed = Object.values(jobs).flatMap(({ needs }) => needs ?? []);
  return [
    ...context.errors.getErrors().map(String),
    ...needed.filter((name) => !Object.hasOwn(jobs, name)).map((name) => `no job ${name}`),
  ];
}

/** Whether a step runs targets of the Makefile, or the script of the CI, and nothing else. */
function isOurs(run: string): boolean {
  const [, command = '', words = ''] =
    /^(?:sudo (?:--preserve-env=[A-Z_,]+ )?)?(\.ci\/run|make)((?: [a-z-]+)*)$/.exec(run) ?? [];
  if (command === '.ci/run') return words === '';
  const targets = words.trim().split(' ');
  return (
    command === 'make' &&
    targets.every((target) => new RegExp(`^${target}:(?!=)`, 'm').test(read('Makefile')))
  );
}

/** The part of GitHub's syntax for issue forms that is used here; see docs.github.com, "Syntax for issue forms". */
function formSchema(): object {
  const texts = { type: 'array', items: { type: 'string' }, minItems: 1 };
  const object = (properties: Readonly<Record<string, object>>, ...required: readonly string[]) => ({
    type: 'object',
    additionalProperties: false,
    properties,
    required,
  });
  const text = { type: 'string', minLength: 1 };
  const markdown = object(
    { type: { const: 'markdown' }, attributes: object({ value: text }, 'value') },
    'type',
    'attributes',
  );
  const textarea = object(
    {
      type: { const: 'textarea' },
      id: { type: 'string', pattern: '^[\\w-]+$' },
      attributes: object({ label: text, description: text, render: text }, 'label'),
      validations: object({ required: { type: 'boolean' } }),
    },
    'type',
    'id',
    'attributes',
  );
  const body = { type: 'array', minItems: 1, items: { anyOf: [markdown, textarea] } };
  return object({ name: text, description: text, labels: texts, body }, 'name', 'description', 'body');
}
