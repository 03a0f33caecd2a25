import { after, before, describe } from 'node:test';
import { contents } from './contents.ts';
import { whyNoDocker } from './docker.ts';
import { release } from './release.ts';
import { running } from './running.ts';
import { createImageLab, type ImageLab } from './support.ts';

const skip = await whyNoDocker();

describe('the image', { skip: skip ?? false, timeout: 900_000 }, () => {
  let lab: ImageLab | undefined;
  const get = () => {
    if (lab === undefined) throw new Error('there is no image');
    return lab;
  };
  // The first time a Debian is fetched for it.
  before(
    async () => {
      lab = await createImageLab();
    },
    { timeout: 600_000 },
  );
  after(() => lab?.[Symbol.asyncDispose]());

  // First: a later test builds the images again, and the release is made of what their builds leave.
  describe('the release', () => release(get));
  describe('contents', () => contents(get));
  describe('as the DaemonSet runs it', () => running(get));
});
