/**
 * Prints the environment of the image for its Dockerfile: Node.js takes its flags from there, so that the agent and what
 * people type into its pod run with the same, without a shell or env(1) that would put them together.
 */
import { ENVIRONMENT, NODE_FLAGS } from '../launch.ts';

/** Values by name. */
export const IMAGE_ENVIRONMENT: Readonly<Record<string, string>> = {
  PATH: '/usr/sbin:/usr/bin',
  NODE_OPTIONS: NODE_FLAGS.join(' '),
  ...ENVIRONMENT,
};

if (import.meta.main) {
  const assignments = Object.entries(IMAGE_ENVIRONMENT).map(([name, value]) => `${name}="${value}"`);
  console.log(assignments.join(' '));
}
