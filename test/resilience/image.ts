/** The Node options and environment variables of the image, for processes under test. */
import { readFileSync } from 'node:fs';
import { instructions, parseExecForm, readDockerfile } from '../support/dockerfile.ts';

const MEASURE = new URL('loop-delay.ts', import.meta.url).href;

/**
 * Returns the environment of a replica in a container with a memory limit. The replica writes its longest turn of the
 * event loop to the file.
 */
export function imageEnvironment(limitMiB: number, turns?: string): Readonly<Record<string, string>> {
  const image = readDockerfile(readFileSync(new URL('../../Dockerfile', import.meta.url), 'utf8')).stages.at(-1);
  if (!image) throw new Error('the Dockerfile has no stages');
  const variables = instructions('ENV', image).flatMap(({ text }) => text.split(/\s+/).map((pair) => pair.split('=')));
  const options = instructions('ENTRYPOINT', image).flatMap((one) => parseExecForm(one)?.slice(1, -1) ?? []);
  // A process under test has no memory limit from which Node could compute the heap size.
  const sizes = options.map((option) =>
    option.replace(/-percentage=(\d+)$/, (_match, share) => `=${Math.floor((limitMiB * Number(share)) / 100)}`),
  );
  return {
    ...(Object.fromEntries(variables) as Record<string, string>),
    NODE_OPTIONS: [...sizes, ...(turns === undefined ? [] : [`--import=${MEASURE}`])].join(' '),
    ...(turns === undefined ? {} : { LOOP_DELAY_FILE: turns }),
  };
}
