/** What the kernel tells of a process; on Linux only. */
import { readdir, readFile } from 'node:fs/promises';

/** What a process uses. */
export interface Usage {
  /** Memory in use now, and at most so far, in MiB. */
  readonly rssMiB: number;
  readonly peakMiB: number;
  /** Processor time so far, that of all threads, in seconds. */
  readonly cpuSeconds: number;
  readonly openFiles: number;
}

/** Rejects if the process has ended, or the machine is none with Linux. */
export async function usageOf(pid: number): Promise<Usage> {
  const [status, stat, files] = await Promise.all([
    readFile(`/proc/${pid}/status`, 'utf8'),
    readFile(`/proc/${pid}/stat`, 'utf8'),
    readdir(`/proc/${pid}/fd`),
  ]);
  const mebibytes = (name: string): number =>
    Math.round(Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1]) / 1024);
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return {
    rssMiB: mebibytes('VmRSS'),
    peakMiB: mebibytes('VmHWM'),
    // It is counted in ticks of 10 ms.
    cpuSeconds: (Number(fields[11]) + Number(fields[12])) / 100,
    openFiles: files.length,
  };
}
