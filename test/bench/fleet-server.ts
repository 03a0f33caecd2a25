/** Serves texts by their paths, which come as JSON on the standard input, on all addresses. Usage: fleet-server.ts PORT */
import { createServer } from 'node:http';
import { json } from 'node:stream/consumers';

const texts = (await json(process.stdin)) as Readonly<Record<string, string>>;
const server = createServer(({ url = '' }, response) => {
  response.setHeader('content-type', 'text/plain; version=0.0.4');
  response.end(texts[url] ?? '');
});
server.listen(Number(process.argv[2]), '0.0.0.0', () => console.log('listening'));
