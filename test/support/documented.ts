/** Runs commands from the documentation. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '../..');

/** Returns the shell blocks of a section. Throws if there are none. */
export function readCommands(file: string, heading: string): readonly string[] {
  const sections = readFileSync(join(ROOT, file), 'utf8').split(/^##+ /m);
  const section = sections.find((text) => text.startsWith(`${heading}\n`)) ?? '';
  const blocks = [...section.matchAll(/```sh\n([^]*?)```/g)].map(([, block = '']) => block);
  assert.ok(blocks.length > 0, `${file} has no commands in a section ${heading}`);
  return blocks;
}

export interface ScriptOutcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a script against a cluster. In the script, `portcullis` runs the program from source. */
export function runScript(script: string, kubeconfig: string): Promise<ScriptOutcome> {
  const program = `portcullis() { '${process.execPath}' '${ROOT}/src/main.ts' "$@"; }\n`;
  const options = { env: { ...process.env, KUBECONFIG: kubeconfig }, timeout: 180_000 };
  return new Promise((resolve) => {
    const child = execFile('sh', ['-ec', `${program}${script}`], options, (_error, stdout, stderr) =>
      resolve({ code: child.exitCode ?? -1, stdout, stderr }),
    );
  });
}
