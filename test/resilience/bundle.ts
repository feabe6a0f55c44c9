import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const BUILD = fileURLToPath(new URL('../../scripts/build.ts', import.meta.url));

/** Builds the bundle. Returns the path of its script. */
export async function bundle(folder: string): Promise<string> {
  const root = fileURLToPath(new URL('../..', import.meta.url));
  const dist = join(folder, 'dist');
  await promisify(execFile)(process.execPath, [BUILD, dist], { cwd: root });
  return join(dist, 'main.js');
}
