import { writeFile } from 'node:fs/promises';
import { printYaml } from '../../config/manifests.ts';
import { reasonOf } from '../../config/source.ts';
import { UserError } from '../../config/user-error.ts';
import { useRoleNameOf } from '../../policy/scc/standard.ts';
import { printable } from '../report/text.ts';
import { remarkOnNeeded, remarksOn } from './print-grants.ts';
import { neededSccsOf } from './summary.ts';
import type { Plan, PlannedGrant } from './types.ts';

/** The bindings of a plan as manifests, each with what there is to know of it; a comment if there are none. */
export function printBindingManifests(plan: Plan): string {
  const needed = neededSccsOf(plan).map((one) => comment(`${remarkOnNeeded(one)}.`));
  const manifests = plan.bindings.map((binding) => {
    const grant = plan.grants.find((one) => isBindingOf(binding, one));
    const remarks = grant === undefined ? [] : remarksOn(grant);
    return `${remarks.map(comment).join('')}${printYaml([binding])}`;
  });
  if (manifests.length === 0 && needed.length === 0) return '# Nothing has to be granted.\n';
  return `${needed.join('')}${manifests.join('---\n')}`;
}

function isBindingOf({ kind, metadata, ...binding }: Plan['bindings'][number], grant: PlannedGrant): boolean {
  if (kind !== 'RoleBinding' || metadata?.namespace !== grant.namespace || !('roleRef' in binding)) return false;
  return binding.roleRef.name === useRoleNameOf(grant.scc) && binding.subjects?.[0]?.name === grant.serviceAccount;
}

/** Names in it may hold anything. */
function comment(text: string): string {
  return `# ${printable(text)}\n`;
}

/** Writes them into a file. Rejects with a UserError if that fails. */
export async function writeBindings(file: string, plan: Plan): Promise<void> {
  try {
    await writeFile(file, printBindingManifests(plan));
  } catch (error) {
    throw new UserError(
      `cannot write ${file}: ${isFolderMissing(error) ? 'there is no such folder' : reasonOf(error)}`,
      {
        cause: error,
      },
    );
  }
}

/** A file that is not there is made. */
function isFolderMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}
