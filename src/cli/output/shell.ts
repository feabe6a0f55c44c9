/** Commands that users run in a POSIX shell. */
import { shellQuote } from '../../kube/text.ts';

/** A program and its arguments, without quotes. */
export interface ShellCommand {
  readonly program: string;
  readonly args: readonly string[];
}

export function kubectl(...args: readonly string[]): ShellCommand {
  return { program: 'kubectl', args };
}

/** Prints a command as a line for a shell. */
export function printCommand({ program, args }: ShellCommand): string {
  return [program, ...args].map(shellQuote).join(' ');
}
