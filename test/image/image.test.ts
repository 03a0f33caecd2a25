import { after, before, describe } from 'node:test';
import { contents } from './contents.ts';
import { whyNoDocker } from './docker.ts';
import { release } from './release.ts';
import { running } from './running.ts';
import { createImageLab, type ImageLab } from './support.ts';

const skip = await whyNoDocker();

describe('the image', { skip: skip ?? false, timeout: 1_500_000 }, () => {
  let lab: ImageLab | undefined;
  const get = () => {
    if (lab === undefined) throw new Error('there is no image');
    return lab;
  };
  // The first time, packages of Debian and npm are fetched for it.
  before(
    async () => {
      lab = await createImageLab();
    },
    { timeout: 1_200_000 },
  );
  after(() => lab?.[Symbol.asyncDispose]());

  describe('the release', () => release(get));
  describe('contents', () => contents(get));
  describe('as the DaemonSet runs it', () => running(get));
});
