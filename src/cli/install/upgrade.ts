import { quote } from '../../kube/text.ts';
import { UserError } from '../../kube/user-error.ts';
import { defineCommand, VERSION } from '../command.ts';
import { type Installation, installedImage } from '../installation/installation.ts';
import { printForCluster } from './for-cluster.ts';
import { planOptions } from './plan.ts';

const DETAILS = `
Prints the manifests of this version for the installation in the kubeconfig's cluster, and the next steps to stderr.
Settings keep their values, as with "portcullis install". Without --image, the image keeps its name and has the tag of this
version. The command changes nothing. Apply the output with kubectl.

The command rejects versions that cannot run together, and settings that this version does not support.

Examples:
  portcullis upgrade | kubectl diff --server-side -f -
  portcullis upgrade | kubectl apply --server-side -f -
  kubectl -n portcullis rollout status deployment/portcullis
`;

export const command = defineCommand({
  details: DETAILS,
  options: planOptions,
  run: (options, _operands, io, sources) =>
    printForCluster(options, io, {
      sources,
      findImage: (installation) => options.image ?? nextImage(installation, options.namespace),
    }),
});

/** Returns the installed image with the tag of this version. */
function nextImage(installation: Installation, namespace: string): string {
  if (!installation.deployment) {
    throw new UserError(`Portcullis is not installed in namespace ${namespace}: use portcullis install`);
  }
  const image = installedImage(installation) ?? '';
  if (image === '' || image.includes('@')) {
    throw new UserError(`the installed image ${quote(image)} has no tag to replace: set the new image with --image`);
  }
  return `${image.replace(/:[^:/]+$/, '')}:${VERSION}`;
}
