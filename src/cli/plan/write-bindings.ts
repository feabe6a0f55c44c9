import { writeFile } from 'node:fs/promises';
import { printYaml } from '../../config/manifests.ts';
import { UserError } from '../../config/user-error.ts';
import type { Plan } from './types.ts';

/** The bindings of a plan as manifests; a comment if there are none. */
export function printBindingManifests({ bindings }: Plan): string {
  return bindings.length === 0 ? '# Nothing has to be granted.\n' : printYaml(bindings);
}

/** Writes them into a file. Rejects with a UserError if that fails. */
export async function writeBindings(file: string, plan: Plan): Promise<void> {
  try {
    await writeFile(file, printBindingManifests(plan));
  } catch (error) {
    throw new UserError(`cannot write ${file}: ${error instanceof Error ? error.message : String(error)}`, {
      cause: error,
    });
  }
}
