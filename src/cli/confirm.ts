import { addAbortSignal, Readable } from 'node:stream';
import { LIMITS } from '../kube/limits.ts';
import type { Io } from './command.ts';

/** Prompts for confirmation. Resolves to true if the response on stdin is `yes`. */
export async function confirm(question: string, { stdin, stderr, signal }: Io): Promise<boolean> {
  stderr.write(`${question} Type "yes" to continue:\n`);
  if (stdin instanceof Readable) addAbortSignal(signal, stdin);
  let response = '';
  for await (const chunk of stdin) {
    response += typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString('utf8');
    if (response.includes('\n') || response.length > LIMITS.confirmationCharacters) break;
  }
  return response.split('\n', 1)[0]?.trim() === 'yes';
}
