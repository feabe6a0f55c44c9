import { readdir, readFile } from 'node:fs/promises';

/** Resources that a process uses. */
export interface Usage {
  /** Current and maximum resident memory. */
  readonly rssMiB: number;
  readonly peakMiB: number;
  /** CPU time of all threads. */
  readonly cpuSeconds: number;
  readonly openFiles: number;
}

/** Reads the usage from /proc. Rejects if the process has ended or the system is not Linux. */
export async function readUsage(pid: number): Promise<Usage> {
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
    // Linux counts ticks of 10 ms.
    cpuSeconds: (Number(fields[11]) + Number(fields[12])) / 100,
    openFiles: files.length,
  };
}
