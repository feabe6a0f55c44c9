/** Formats commands that users run in a POSIX shell. */
import { shellQuote } from '../../kube/text.ts';

/** A program and its unquoted arguments. */
export interface ShellCommand {
  readonly program: string;
  readonly args: readonly string[];
  /** True for a command that reads no cluster, and therefore rejects the flags that select one. */
  readonly isOffline?: boolean;
}

export function kubectl(...args: readonly string[]): ShellCommand {
  return { program: 'kubectl', args };
}

/** Formats a command as a shell command line. */
export function printCommand({ program, args }: ShellCommand): string {
  return [program, ...args].map(shellQuote).join(' ');
}
