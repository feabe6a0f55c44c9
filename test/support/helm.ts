import { spawnSync } from 'node:child_process';

/** True where Helm can be run. */
export const hasHelm = spawnSync('helm', ['version'], { stdio: 'ignore' }).status === 0;
