import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { normalised } from '../../../build/image/normalise.ts';

const DOCKERFILE = `FROM debian AS first
COPY . /build/
FROM scratch
# why
COPY --from=first /a /
LABEL a="1" \\
      b="2"
COPY --from=first /b /
ENTRYPOINT ["/a"]
`;
const LAYERS = ['sha256:1', 'sha256:2'];
/** As an older builder writes it. */
const BUILT = {
  architecture: 'amd64',
  os: 'linux',
  created: '2026-01-31T23:59:59.123456789Z',
  docker_version: '20.10.24',
  container: '0123',
  config: {
    Entrypoint: ['/a'],
    Env: ['PATH=/'],
    Labels: { a: '1' },
    User: '0:0',
    Image: 'sha256:9',
    Hostname: 'x',
  },
  rootfs: { type: 'layers', diff_ids: LAYERS },
};

describe('a normalised image', () => {
  const image = normalised(BUILT, DOCKERFILE, 'arm64', 86_400);

  it('runs as it was built to, and has the same layers', () => {
    assert.deepEqual(image.config, { Entrypoint: ['/a'], Env: ['PATH=/'], Labels: { a: '1' }, User: '0:0' });
    assert.deepEqual(image.rootfs, BUILT.rootfs);
  });

  it('has the architecture and the time that it is told', () => {
    assert.equal(image.architecture, 'arm64');
    assert.equal(image.created, '1970-01-02T00:00:00.000Z');
  });

  it('tells the instructions that made it, a layer for each COPY', () => {
    assert.deepEqual(
      image.history?.map(
        ({ created_by, empty_layer = false }) => `${created_by}${empty_layer ? ' (empty)' : ''}`,
      ),
      [
        'COPY --from=first /a /',
        'LABEL a="1" b="2" (empty)',
        'COPY --from=first /b /',
        'ENTRYPOINT ["/a"] (empty)',
      ],
    );
  });

  it('holds nothing of when and where it was built', () => {
    const text = JSON.stringify(image);
    for (const trace of ['2026', '0123', '20.10', 'sha256:9']) assert.ok(!text.includes(trace), trace);
  });

  it('is refused where the Dockerfile is not the one that it was built by', () => {
    const other = DOCKERFILE.replace('COPY --from=first /b /\n', '');
    assert.throws(() => normalised(BUILT, other, 'amd64', 0), /not a layer for each COPY/);
  });
});
