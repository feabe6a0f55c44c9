import type { Io } from '../command.ts';

/** No answer is longer; the rest is not read. */
const MAX_ANSWER = 1000;

/** Asks a question on the error output; true if the answer on the input is `yes`. */
export async function confirm(question: string, { stdin, stderr }: Io): Promise<boolean> {
  stderr.write(`${question} Type "yes" to go on:\n`);
  let answer = '';
  for await (const chunk of stdin) {
    answer += typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString('utf8');
    if (answer.includes('\n') || answer.length > MAX_ANSWER) break;
  }
  return answer.split('\n', 1)[0]?.trim() === 'yes';
}
