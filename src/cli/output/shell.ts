/** Formats commands that users run in a POSIX shell. */
import { shellQuote } from '../../kube/text.ts';
import type { clusterOptions } from '../cluster.ts';
import type { Values } from '../options.ts';

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

/** Returns the flags with which the user selected the cluster. They are also flags of kubectl. */
export function getClusterFlags({ kubeconfig, context }: Values<typeof clusterOptions>): readonly string[] {
  const options = { kubeconfig, context };
  return Object.entries(options).flatMap(([name, value]) => (value === undefined ? [] : [`--${name}=${value}`]));
}

/** Formats a command as a shell command line. The flags select the cluster. */
export function printCommand(
  { program, args, isOffline = false }: ShellCommand,
  clusterFlags: readonly string[] = [],
): string {
  return addFlags([program, ...args].map(shellQuote).join(' '), isOffline ? [] : clusterFlags);
}

/** Adds flags to a command line. */
export function addFlags(commandLine: string, flags: readonly string[]): string {
  return [commandLine, ...flags.map(shellQuote)].join(' ');
}
