import assert from 'node:assert/strict';
import { run } from '../../src/cli/program.ts';
import type { ReportData } from '../../src/web/report-data.ts';

/** Opens a dashboard with the token in its URL, and returns its first report. */
export async function readDashboard(url: string): Promise<ReportData> {
  const page = await fetch(url);
  assert.equal(page.status, 200, await page.text());
  const [cookie = ''] = page.headers.getSetCookie().map((one) => one.split(';')[0] ?? '');
  const response = await fetch(new URL('/events', url), { headers: { cookie } });
  assert.ok(response.body);
  const decoder = new TextDecoder();
  let text = '';
  for await (const chunk of response.body) {
    text += decoder.decode(chunk as Uint8Array, { stream: true });
    const [, event, data] = /^event: (\w+)\ndata: (.*)\n\n/m.exec(text) ?? [];
    if (event === undefined) continue;
    assert.equal(event, 'report', data);
    return JSON.parse(data ?? '') as ReportData;
  }
  throw new Error('the dashboard closed the connection');
}

/**
 * Runs `portcullis dashboard` with options until its first report. Calls `change` before it opens the page. Returns the
 * report.
 */
export async function runDashboard(options: readonly string[], change?: () => Promise<unknown>): Promise<ReportData> {
  const stopping = new AbortController();
  const opened = Promise.withResolvers<string>();
  const io = {
    stdin: (async function* (): AsyncGenerator<string> {})(),
    stdout: { write: (text: string) => opened.resolve(/http:\S+token=\S+/.exec(text)?.[0] ?? '') },
    stderr: { write: (text: string) => opened.reject(new Error(text)) },
    env: {},
    signal: stopping.signal,
  };
  const ended = run(['dashboard', ...options], io);
  try {
    const url = await opened.promise;
    await change?.();
    return await readDashboard(url);
  } finally {
    stopping.abort();
    assert.equal(await ended, 0);
  }
}
