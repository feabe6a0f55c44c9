/** Builds `dist/` when npm packs the repository or installs it from git, as pre-commit does for its hook. */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

// In a development clone, `npm ci` does not build `dist/`, because the program runs from source.
if (process.env['npm_command'] !== 'ci') {
  // `npm install --global` does not install the development dependencies of a repository.
  if (!existsSync('node_modules/esbuild')) {
    const { status } = spawnSync('npm ci --ignore-scripts --no-audit --no-fund', {
      shell: true,
      stdio: 'inherit',
      env: { ...process.env, NODE_ENV: '', npm_config_global: 'false' },
    });
    if (status !== 0) process.exit(1);
  }
  await import('./build.ts');
}
