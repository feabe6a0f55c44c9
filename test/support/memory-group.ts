import { mkdir, readFile, rmdir, writeFile } from 'node:fs/promises';
import { eventually } from './eventually.ts';

/** A version 1 memory cgroup, which limits a process as a container runtime does. */
export interface MemoryGroup {
  /** The file to which a process writes its ID to join the group. */
  readonly processes: string;
  /** Returns the number of processes that were killed for exceeding the limit. */
  kills(): Promise<number>;
  /** Removes the group after its processes have ended. */
  remove(): Promise<void>;
}

const ROOT = '/sys/fs/cgroup/memory';

/** Creates a cgroup. Returns `undefined` if this process lacks permission or the system has no version 1 cgroups. */
export async function createMemoryGroup(name: string, limitMiB: number): Promise<MemoryGroup | undefined> {
  const folder = `${ROOT}/${name}-${process.pid}`;
  try {
    await mkdir(folder);
    await writeFile(`${folder}/memory.limit_in_bytes`, String(limitMiB * 1024 * 1024));
  } catch {
    return undefined;
  }
  return {
    processes: `${folder}/cgroup.procs`,
    async kills() {
      const text = await readFile(`${folder}/memory.oom_control`, 'utf8');
      return Number(/^oom_kill (\d+)/m.exec(text)?.[1]);
    },
    remove: () => eventually(() => rmdir(folder)),
  };
}
