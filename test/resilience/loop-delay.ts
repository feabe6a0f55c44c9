/**
 * A process under test imports this module. It writes the maximum CPU time that a turn of the event loop used, in
 * milliseconds, to a file.
 */
import { writeFile } from 'node:fs/promises';
import { isMainThread } from 'node:worker_threads';

const file = process.env['LOOP_DELAY_FILE'];
if (isMainThread && file !== undefined) {
  let last = process.threadCpuUsage();
  let maxMs = 0;
  setInterval(() => {
    const { user, system } = process.threadCpuUsage(last);
    last = process.threadCpuUsage();
    maxMs = Math.max(maxMs, (user + system) / 1000);
  }, 5).unref();
  // The measurement does not include the loading of modules at startup.
  setTimeout(() => (maxMs = 0), 3000).unref();
  // A synchronous write would wait for the disk, which etcd and the audit log keep busy.
  setInterval(() => void writeFile(file, String(Math.round(maxMs))), 250).unref();
}
