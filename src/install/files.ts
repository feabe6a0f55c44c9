import { chartFiles } from './helm/chart.ts';
import { defaultSettings, manifestsOf } from './index.ts';
import { baseFiles } from './kustomize/base.ts';
import { manifestFile, type Files } from './kustomize/files.ts';
import { overlayFiles } from './kustomize/overlays.ts';

export type { Files } from './kustomize/files.ts';

/** All files of `webhook-config/`. */
export function manifestFiles(version: string): Files {
  return [
    ['install.yaml', manifestFile(manifestsOf(defaultSettings(version)))],
    ...baseFiles(version),
    ...overlayFiles(version),
    ...chartFiles(version).map(([path, text]) => [`helm/portcullis/${path}`, text] as const),
  ];
}
