/** The program of the probe pods: serves, and does errands for whoever connects to its control socket. */
import { get } from 'node:http';
import { createServer, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { run } from '../../../lab/run.ts';
import { type Answer, CONTROL, type Errand, type Errands, type Question } from './errands.ts';
import { ask, RunningFlow } from './flow.ts';
import { processesOf } from './processes.ts';
import { startServers } from './server.ts';
import { Traffic } from './traffic.ts';

type Doer<Name extends Errand> = (request: Errands[Name]['request']) => Promise<Errands[Name]['reply']>;

const flows = new Map<string, RunningFlow>();
let traffic: Traffic | undefined;

const DOERS: { readonly [Name in Errand]: Doer<Name> } = {
  ask: ({ targets }) => Promise.all(targets.map(ask)),
  flow: async ({ name, target }) => {
    const flow = flows.get(name) ?? new RunningFlow(target);
    flows.set(name, flow);
    return await flow.next();
  },
  closeFlow: async ({ name }) => {
    flows.get(name)?.close();
    flows.delete(name);
    return true;
  },
  traffic: async ({ name, targets, perSecond }) => {
    if (traffic?.name === name) return true;
    traffic?.stop();
    traffic = new Traffic(name, targets, perSecond);
    return true;
  },
  tallies: async ({ stop }) => {
    if (stop) traffic?.stop();
    return (await traffic?.tallies()) ?? [];
  },
  fetch: ({ url }) => fetchPage(url),
  run: ({ file, args, input }) => run({ file, args }, { PATH: process.env['PATH'] ?? '' }, { input }),
  processes: ({ container }) => processesOf(container),
};

function fetchPage(url: string): Promise<Errands['fetch']['reply']> {
  return new Promise((resolve) => {
    const fail = (error: Error) => resolve({ status: undefined, body: error.message });
    get(url, { agent: false }, async (response) => {
      let body = '';
      for await (const chunk of response.setEncoding('utf8')) body += chunk;
      resolve({ status: response.statusCode, body });
    }).on('error', fail);
  });
}

async function answer<Name extends Errand>({ id, errand, request }: Question<Name>): Promise<Answer> {
  try {
    return { id, reply: await DOERS[errand](request) };
  } catch (error) {
    return { id, error: error instanceof Error ? error.message : String(error) };
  }
}

function serve(socket: Socket): void {
  socket.on('error', () => {});
  createInterface(socket).on('line', async (line) => {
    const reply = await answer(JSON.parse(line));
    if (socket.writable) socket.write(`${JSON.stringify(reply)}\n`);
  });
}

// The first process of a container gets no default action of a signal.
process.on('SIGTERM', () => process.exit());
createServer(serve).listen(CONTROL);
startServers(process.env['POD_NAME'] ?? '');
